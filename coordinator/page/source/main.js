// The server's page: `/` is the overview; `?view=`, `?group=` and `?topic=` show the rest (shell.js has the list of the views).

import { BrokersPage } from "./brokers_page.js";
import { visible } from "./dom.js";
import { EventsPage } from "./events_page.js";
import { FaultsPage } from "./faults_page.js";
import { GroupPage } from "./group_page.js";
import { GroupsPage } from "./groups_page.js";
import { OverviewPage } from "./overview_page.js";
import { Shell } from "./shell.js";
import { TopicPage } from "./topic_page.js";
import { TopicsPage } from "./topics_page.js";
import { WorkersPage } from "./workers_page.js";

const VIEWS = { overview: OverviewPage, groups: GroupsPage, topics: TopicsPage, events: EventsPage, faults: FaultsPage, workers: WorkersPage,
  brokers: BrokersPage };

const asked = new URLSearchParams(location.search);
const group = asked.get("group");
const topic = asked.get("topic");
const root = document.querySelector("main");
const isView = Object.hasOwn(VIEWS, asked.get("view"));
const view = group !== null ? "groups" : topic !== null ? "topics" : isView ? asked.get("view") : "overview";
const shell = new Shell(view);
document.title = `${visible(group ?? topic ?? view)} - coordinator`;
if (group !== null) new GroupPage(root, group, asked.get("moment"));
else if (topic !== null) new TopicPage(root, topic, asked);
else new VIEWS[view](root, shell, asked);
