// The server's page: `/` lists the groups, `/?group=NAME` shows one.

import { GroupPage } from "./group_page.js";
import { GroupsPage } from "./groups_page.js";
import { visible } from "./dom.js";

const root = document.querySelector("main");
const group = new URLSearchParams(location.search).get("group");
if (group === null) new GroupsPage(root);
else {
  document.title = `${visible(group)} - groups`;
  new GroupPage(root, group);
}
