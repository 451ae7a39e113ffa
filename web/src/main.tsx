import { render } from "preact";
import "./style/tokens.css";
import "./style/page.css";
import "./style/more.css";
import { App } from "./app";
import { start } from "./lib/live";
import { listen } from "./lib/route";
import { follow } from "./lib/theme";

const page = document.getElementById("page");
if (page) {
  follow();
  listen();
  start();
  render(<App />, page);
}
