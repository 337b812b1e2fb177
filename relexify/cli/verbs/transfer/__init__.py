"""Give a model a new language, train it, evaluate it, look at it and publish it."""
