import t from 'tap'
import * as rules from '../../../core/payments/rules.ts'
import { systemClock as clock } from '../../../core/ports/clock.ts'
import { silentLog as log } from '../../../core/ports/log.ts'
import type { Ledger } from '../../../core/ports/store/ledger.ts'
import { newAccount } from '../../../test/helpers/chains/evm/settler.ts'
import { start, startFacilitator } from '../../../test/helpers/chains/facilitator/facilitator.ts'
import { paymentFor, terms } from '../../../test/helpers/chains/facilitator/referenceFacilitator.ts'
import { until } from '../../../test/helpers/rawHttp.ts'
import { openTestStore } from '../../../test/helpers/store/testStore.ts'
import { forgetConcludedNowAndThen } from './openStack.ts'

t.test(
  'what another process has concluded is in its payer’s way no more, and asks for nothing any more',
  async (t) => {
    const facilitator = await startFacilitator(t, {
      verify: () => ({ isValid: true }),
      settle: (_body, response) => void response.writeHead(502).end(),
    })
    const settler = await start(t, facilitator.url, {
      maxInFlightPerPayer: 2,
      failureBudget: { failures: 3, windowMs: 600_000 },
    })
    const { ledger } = openTestStore({ clock, storeClock: clock })
    let requestCount = 0
    const counted: Pick<Ledger, 'statesOf' | 'find'> = {
      find: ledger.find,
      statesOf(keys) {
        requestCount++
        return ledger.statesOf(keys)
      },
    }
    const job = forgetConcludedNowAndThen({ settlers: [settler] }, counted, log, 20)
    t.teardown(() => job.stop())

    const buyer = newAccount()
    const verify = async () => {
      const { payment, identity } = await paymentFor(settler, buyer)
      const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
      if (verified.ok) verified.hold.release()
      return verified.ok ? 'ok' : verified.reason
    }
    const leaveOpen = async (id: number) => {
      const { payment, identity } = await paymentFor(settler, buyer)
      const purchaseId = `0190b2a4-0000-7000-8000-00000000000${id}`
      const claimed = await ledger.claim({
        ...identity,
        scheme: 'exact',
        lease: 9,
        purchaseId,
        payload: JSON.stringify(payment),
        linkId: 'link',
        sessionId: null,
        storeId: 'store',
        requestHash: 'h',
      })
      if (!claimed.won) throw new Error('the key is taken')
      const held = { row: claimed.row, purchaseId, lease: 9, state: 'settling' as const }
      const outcome = await settler.settle(payment, terms, identity, (attempt) =>
        ledger.apply(rules.begin(held, attempt, null)),
      )
      t.match(outcome, { status: 'pending' })
      return () => ledger.apply(rules.giveUp(held, 'expired'))
    }
    const open = [await leaveOpen(1), await leaveOpen(2)]
    await until(async () => requestCount > 2)
    t.equal(await verify(), 'too_many_payments_in_flight', 'both may land still')
    await open[0]!()
    await until(async () => (await verify()) === 'ok', 'the place of the one that has failed')
    await open[1]!()
    const before = requestCount
    await until(async () => requestCount > before)
    await until(async () => {
      const now = requestCount
      await new Promise((resolve) => setTimeout(resolve, 100))
      return requestCount === now
    }, 'nobody asks for what is over')
    await leaveOpen(3)
    t.equal(await verify(), 'too_many_payments_in_flight', 'the two count as failures')
  },
)
