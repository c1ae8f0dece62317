import type { Test } from 'tap'
import type { Sessions } from '../../../core/ports/store/sessions.ts'
import { turned } from '../rotated.ts'
import { change, claimed, type LedgerUnderTest, sampleAttempt, sampleClaim, startMs } from '../samples.ts'
import { sampleSession } from './sessions.ts'

type UnderTest = Pick<LedgerUnderTest, 'ledger'> & { readonly sessions: Sessions }

/** What two stores of the same tables promise of a session: one begins to pay it, or cancels it, and never both. */
export async function sessionRace(t: Test, [here, there]: readonly [UnderTest, UnderTest]): Promise<void> {
  for (let round = 0; round < 25; round++) {
    const id = `session-${round}`
    await here.sessions.create(sampleSession(id))
    const begin = async (store: UnderTest, name: string) => {
      const claim = sampleClaim(`${round}-${name}`, { sessionId: id, linkId: null })
      const row = await claimed(store, claim)
      return () =>
        store.ledger.apply(
          change(claim, row, 'claimed', 'settling', {
            ...{ attempt: { ...sampleAttempt, sequence: null }, durability: 'flushed' },
            session: { id, does: 'take' },
          }),
        )
    }
    const [one, two] = [await begin(here, 'one'), await begin(there, 'two')]
    const cancel = async () => (await there.sessions.cancel(id, startMs))!.state === 'canceled'
    const done = await Promise.all(turned([one, two, cancel], round).map((run) => run()))
    t.equal(done.filter(Boolean).length, 1, `one of them, in round ${round}`)
  }
}
