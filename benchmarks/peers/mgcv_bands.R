# Fit mgcv's gam to simulated rows and write its terms with their standard errors.
# Rscript mgcv_bands.R folder family pairs: for each number in numbers.txt the folder holds train, grid, surface and new
# (.csv, columns x0 to x5; train has the target y as well). Smoothing parameters by REML, mgcv's default bases.
# Output for each: terms, surfaces and rows (.csv): value, standard error, standard error with that of the smoothing
# parameters (unconditional = TRUE), three columns per term; seconds of the processor in cost.csv.
suppressMessages(library(mgcv))
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
family <- switch(arguments[2], gaussian = gaussian(), poisson = poisson(), binomial = binomial())
surfaces <- if (arguments[3] == "yes") c("ti(x2, x3)", "ti(x0, x4)") else character(0)
formula <- as.formula(paste("y ~", paste(c(sprintf("s(x%d)", 0:5), surfaces), collapse = " + ")))

file <- function(kind, number) file.path(folder, sprintf("%s_%d.csv", kind, number))
written <- function(table, kind, number) write.table(table, file(kind, number), sep = ",", row.names = FALSE, col.names = FALSE)
side_by_side <- function(fit, at, labels) {
  plain <- predict(fit, at, type = "terms", se.fit = TRUE)
  wide <- predict(fit, at, type = "terms", se.fit = TRUE, unconditional = TRUE)
  do.call(cbind, lapply(labels, function(label) cbind(plain$fit[, label], plain$se.fit[, label], wide$se.fit[, label])))
}

for (number in scan(file.path(folder, "numbers.txt"), quiet = TRUE)) {
  begun <- proc.time()
  fit <- gam(formula, data = read.csv(file("train", number)), family = family, method = "REML")
  written(side_by_side(fit, read.csv(file("grid", number)), sprintf("s(x%d)", 0:5)), "terms", number)
  taken <- proc.time() - begun
  if (length(surfaces))
    written(side_by_side(fit, read.csv(file("surface", number)), gsub(" ", "", surfaces)), "surfaces", number)
  new <- read.csv(file("new", number))
  plain <- predict(fit, new, se.fit = TRUE)
  wide <- predict(fit, new, se.fit = TRUE, unconditional = TRUE)
  written(cbind(plain$fit, plain$se.fit, wide$se.fit), "rows", number)
  written(sum(taken[c("user.self", "sys.self")]), "cost", number)
}
