/** In another order each round, so that either of them comes first now and then. */
export const turned = <T>(turns: readonly T[], round: number): T[] => [
  ...turns.slice(round % turns.length),
  ...turns.slice(0, round % turns.length),
]
