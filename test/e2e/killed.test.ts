import t from 'tap'
import { type KillPoint, killAndRecover, type SettleMode } from './helpers/killed.ts'

// The points that differ most; test/slow/killed.test.ts has all of them.
const samples: readonly ['evm' | 'solana', SettleMode, KillPoint][] = [
  ['solana', 'after', 'stored'],
  ['evm', 'after', 'broadcast'],
  ['solana', 'before', 'recorded'],
]

// Most of it is waiting until the killed process counts as gone.
t.jobs = 4
for (const [chain, settle, point] of samples) {
  t.test(
    `killed when ${point} on ${chain}, settling ${settle}: nothing is lost, nothing is double`,
    { buffered: true },
    (t) => killAndRecover(t, chain, settle, point),
  )
}
