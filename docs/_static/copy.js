// A button at each code block that copies what one would type: of a session only the commands, without `$ `.
document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(typed(block.textContent));
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.parentElement.append(button);
  }
});

function typed(text) {
  for (const prompt of ["$ ", ">>> "]) {
    if (text.trimStart().startsWith(prompt)) {
      const kept = prompt === "$ " ? ["$ "] : [">>> ", "... "];
      const lines = text.split("\n").filter((line) => kept.some((each) => line.startsWith(each)));
      return lines.map((line) => line.slice(line.indexOf(" ") + 1)).join("\n");
    }
  }
  return text.trimEnd();
}
