import { render } from "preact";
import "./style/base.css";
import "./style/lists.css";
import "./style/drawing.css";
import "./style/text.css";
import "./style/pages.css";
import { App } from "./app";
import { startGoing } from "./core/going";
import { startKeys } from "./core/keys";
import { askWho } from "./core/session";
import { loadAgainAfterUpgrade } from "./parts/boundary";

loadAgainAfterUpgrade();
startGoing();
startKeys();
render(<App />, document.getElementById("page")!);
void askWho();
