package httpapi

// ProblemOf is what decides over every error's problem document.
var ProblemOf = problemOf
