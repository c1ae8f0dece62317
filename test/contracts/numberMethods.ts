import type { Methods } from '../../adapters/store/repositories/calls.ts'
import type { Steps, Tx } from '../../adapters/store/repositories/transaction.ts'
import { tooManyRenames } from '../../core/ports/refusals.ts'

/** Methods on a table of numbers, for tests of calls: `CREATE TABLE numbers (n bigint PRIMARY KEY)`. */
export const numberMethods = {
  numbers: {
    *add(tx: Tx, ...numbers: number[]): Steps<number> {
      for (const n of numbers) yield* tx.run`INSERT INTO numbers (n) VALUES (${n})`
      return (yield* tx.one<{ count: number }>`SELECT count(*) AS count FROM numbers`)!.count
    },
    *addAndRefuse(tx: Tx, n: number): Steps<void> {
      yield* tx.run`INSERT INTO numbers (n) VALUES (${n})`
      throw tooManyRenames(1, 60_000, 0)
    },
    *addAndFail(tx: Tx, n: number): Steps<void> {
      yield* tx.run`INSERT INTO numbers (n) VALUES (${n})`
      yield* tx.run`INSERT INTO nowhere (n) VALUES (${n})`
    },
    *addAndAwait(tx: Tx, n: number): Steps<void> {
      yield* tx.run`INSERT INTO numbers (n) VALUES (${n})`
      yield Promise.resolve() as never
    },
    *addAndDie(tx: Tx, n: number): Steps<void> {
      yield* tx.run`INSERT INTO numbers (n) VALUES (${n})`
      process.kill(process.pid, 'SIGKILL')
    },
    *lingerAndAdd(tx: Tx, n: number): Steps<void> {
      const untilMs = performance.now() + 25
      while (performance.now() < untilMs);
      yield* tx.run`INSERT INTO numbers (n) VALUES (${n})`
    },
    /** Every caller waits for the name between the two rows. */
    *moveWithin(tx: Tx, name: string, first: number, second: number): Steps<void> {
      yield* tx.run`UPDATE numbers SET n = -n WHERE abs(n) = ${first}`
      yield* tx.hold(name)
      yield* tx.run`UPDATE numbers SET n = -n WHERE abs(n) = ${second}`
    },
    *countTwice(tx: Tx, name: string): Steps<readonly number[]> {
      yield* tx.hold(name)
      const count = () => tx.one<{ count: number }>`SELECT count(*) AS count FROM numbers`
      const before = (yield* count())!.count
      yield* tx.run`INSERT INTO numbers (n) SELECT coalesce(max(n), 0) + 1 FROM numbers`
      return [before, (yield* count())!.count]
    },
    *times(tx: Tx): Steps<readonly number[]> {
      return [tx.nowMs, yield* tx.storeNowMs()]
    },
  },
} satisfies Methods
