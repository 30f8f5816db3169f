// Fills the list of versions from versions.json, which lies beside the versions' folders; from a file system it shows this one alone.
(() => {
  const select = document.querySelector(".versions select");
  if (!select) return;
  const here = select.dataset.version;
  const root = new URL(document.documentElement.dataset.content_root || "./", document.location);
  fetch(new URL("../versions.json", root))
    .then((answer) => (answer.ok ? answer.json() : []))
    .then((versions) => {
      for (const version of versions.filter((each) => each !== here)) select.add(new Option(version, version));
      select.addEventListener("change", () => {
        const page = document.location.pathname.slice(root.pathname.length);
        const there = new URL(`../${select.value}/`, root);
        fetch(new URL(page, there), { method: "HEAD" })
          .then((answer) => { document.location = answer.ok ? new URL(page, there) : there; });
      });
    })
    .catch(() => {});
})();
