// The server's page: `/` lists the groups, `/?group=NAME` shows one, `/?view=topics` lists the topics.

import { GroupPage } from "./group_page.js";
import { GroupsPage } from "./groups_page.js";
import { TopicsPage } from "./topics_page.js";
import { visible } from "./dom.js";

const root = document.querySelector("main");
const asked = new URLSearchParams(location.search);
const group = asked.get("group");
if (asked.get("view") === "topics") {
  document.title = "Topics";
  new TopicsPage(root);
} else if (group === null) new GroupsPage(root);
else {
  document.title = `${visible(group)} - groups`;
  new GroupPage(root, group);
}
