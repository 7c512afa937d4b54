// A page that shows final.h5 in h5web, which reads it by h5wasm in the browser.
import { App } from "@h5web/app";
import "@h5web/app/styles.css";
import { H5WasmBufferProvider } from "@h5web/h5wasm";
import React from "react";
import { createRoot } from "react-dom/client";

const response = await fetch("final.h5");
const buffer = await response.arrayBuffer();
createRoot(document.getElementById("root")).render(
  <H5WasmBufferProvider filename="final.h5" buffer={buffer}>
    <App />
  </H5WasmBufferProvider>,
);
