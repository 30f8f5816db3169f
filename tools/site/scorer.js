// What a search puts first: the name that was asked for, then the guides, then the reference.
"use strict";
// eslint-disable-next-line no-unused-vars
var Scorer = {
  score: ([docname, , , , score]) => {
    if (docname.startsWith("reference/") || docname === "genindex") return score;
    return score + (/^(?:changelog|contributing|architecture|abi)$/.test(docname) ? 20 : 60);
  },
  objNameMatch: 200,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
