# Fit mgcv's gam or bam to train.csv (target in the last column, y), write predictions and surfaces.
# Rscript mgcv.R folder settings: the folder holds train.csv, new.csv and perhaps grid.csv (nodes of all columns);
# settings are name=value: method=gam|bam|discrete, terms=main|pairs, basis=, family=
# Output: predictions.csv (one column), surfaces.csv (one column per pair), figures.txt (seconds, cpu, megabytes).
suppressMessages(library(mgcv))
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
pieces <- strsplit(arguments[-1], "=")
settings <- setNames(lapply(pieces, `[`, 2), sapply(pieces, `[`, 1))
basis <- as.integer(settings$basis)

memory <- function(field) { # of this process, in MB
  lines <- readLines("/proc/self/status")
  as.numeric(gsub("[^0-9]", "", grep(paste0("^", field), lines, value = TRUE))) / 1024
}

train <- read.csv(file.path(folder, "train.csv"), stringsAsFactors = TRUE)
new <- read.csv(file.path(folder, "new.csv"), stringsAsFactors = TRUE)
x <- setdiff(names(train), c("y", "offset_"))
for (name in x[sapply(train[x], is.factor)]) {
  value <- as.character(new[[name]])
  value[!value %in% levels(train[[name]])] <- names(which.max(table(train[[name]]))) # levels not seen in training
  new[[name]] <- factor(value, levels = levels(train[[name]]))
}

main <- function(name) {
  if (is.factor(train[[name]])) return(if (nlevels(train[[name]]) > 1) name)
  values <- length(unique(train[[name]]))
  if (values < 2) return(NULL)
  if (values < 4) return(name)
  sprintf("s(%s, bs = 'cr', k = %d)", name, min(basis, values))
}
pairs <- if (settings$terms == "pairs") combn(x, 2, function(two)
  sprintf("ti(%s, %s, bs = 'cr', k = %d)", two[1], two[2], basis)) else character(0)
offset <- if ("offset_" %in% names(train)) "offset(offset_)"
formula <- as.formula(paste("y ~", paste(c(unlist(lapply(x, main)), pairs, offset), collapse = " + ")))
family <- switch(settings$family, gaussian = gaussian(), poisson = poisson(), binomial = binomial())

invisible(gc(full = TRUE))
try(cat("5", file = "/proc/self/clear_refs"), silent = TRUE) # the peak from here on
before <- memory("VmRSS")
begun <- proc.time()
fit <- switch(settings$method,
  gam = gam(formula, data = train, family = family, method = "REML"),
  bam = bam(formula, data = train, family = family),
  discrete = bam(formula, data = train, family = family, discrete = TRUE))
taken <- proc.time() - begun
peak <- memory("VmHWM") - before
begun <- proc.time()
predicted <- as.numeric(predict(fit, new, type = "response"))
asked <- proc.time() - begun
write.table(predicted, file.path(folder, "predictions.csv"), row.names = FALSE, col.names = FALSE)

grid_file <- file.path(folder, "grid.csv")
if (file.exists(grid_file)) {
  nodes <- read.csv(grid_file)[[1]]
  surfaces <- sapply(combn(x, 2, simplify = FALSE), function(two) {
    at <- expand.grid(second = nodes, first = nodes) # the second column runs fastest
    table <- as.data.frame(matrix(0, nrow(at), length(x), dimnames = list(NULL, x)))
    table[[two[1]]] <- at$first
    table[[two[2]]] <- at$second
    label <- sprintf("ti(%s,%s)", two[1], two[2])
    predict(fit, table, type = "terms", terms = label)[, label]
  })
  write.table(surfaces, file.path(folder, "surfaces.csv"), sep = ",", row.names = FALSE, col.names = FALSE)
}
cat(taken[["elapsed"]], sum(taken[c("user.self", "sys.self")]), peak,
    asked[["elapsed"]], file = file.path(folder, "figures.txt"))
