import t from 'tap'
import { killAndRecover, pointsOf } from '../e2e/helpers/killed.ts'

// Each waits until the killed process counts as gone; two cores can carry this many side by side.
t.jobs = 6
for (const chain of ['evm', 'solana', 'permit2'] as const) {
  for (const settle of ['after', 'before'] as const) {
    for (const point of pointsOf(settle)) {
      t.test(
        `killed when ${point}, paying by ${chain}, settling ${settle}: nothing is lost, nothing is double`,
        { buffered: true },
        (t) => killAndRecover(t, chain, settle, point),
      )
    }
  }
}
