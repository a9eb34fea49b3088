import { createRoot } from "react-dom/client";
import { App } from "./app";
import "./design/tokens.css";
import "./design/base.css";
import { preferences } from "./parts/preferences";

preferences.apply();
const root = document.getElementById("root");
if (root !== null) createRoot(root).render(<App />);
