import t, { type Test } from 'tap'
import { createRecovery } from '../../../../core/payments/recovery.ts'
import * as rules from '../../../../core/payments/rules.ts'
import { silentLog as log } from '../../../../core/ports/log.ts'
import { addressOf, usdc } from '../../../../test/helpers/chains/solana/payments.ts'
import { type Prepared, price, setStage } from '../../../../test/helpers/chains/solana/stage.ts'
import { openTestStore } from '../../../../test/helpers/store/testStore.ts'

const SLOT_MS = 400
/** How long the lease of a killed process lasts, in ms. */
const LEASE_MS = 10_000
/** Slots until a block is finalized, and for which a block hash is taken. */
const [finalizedAfter, hashLife] = [32, 150]

/** A chain with slots of 400 ms and a gateway that recovers once a second. The test moves the clock of both. */
async function stageWithLedger(t: Test) {
  const stage = await setStage()
  t.teardown(stage.close)
  const clock = { now: () => Date.now() + stage.ahead }
  const store = openTestStore({ clock, storeClock: clock })
  const { ledger, leases } = store
  const heir = (await leases.take('heir', 3_600_000))!
  const settler = stage.another()
  const recovery = createRecovery({
    ledger,
    leases,
    clock,
    log,
    lease: { current: heir },
    chains: { assets: [usdc], settlers: [settler], settler: () => settler },
    payments: { isUnderWay: () => false, withhold: () => () => {} },
    purchases: store.purchases,
    sessions: store.sessions,
    refundProofs: { prove: async () => ({ status: 'not_configured' }) },
    notes: { tokenHash: () => 'hash' },
  })

  /** Stores a payment as its call does before the broadcast, and kills the process there. */
  async function storeAndDie({ payment, terms, identity, hold }: Prepared): Promise<void> {
    const killed = (await leases.take('killed', LEASE_MS))!
    const purchaseId = '0190b2a4-0000-7000-8000-000000000001'
    const claim = {
      ...identity,
      scheme: 'exact',
      lease: killed.id,
      purchaseId,
      payload: JSON.stringify(payment),
    }
    const claimed = await ledger.claim({
      ...claim,
      linkId: 'link',
      sessionId: null,
      storeId: 'store',
      requestHash: 'h',
    })
    if (!claimed.won) throw new Error('the key is taken')
    const held = { row: claimed.row, purchaseId, lease: killed.id }
    const store = async (attempt: Parameters<typeof rules.begin>[1]) => {
      await ledger.apply(rules.begin(held, attempt, { status: 200, headers: [], body: Buffer.from('{}') }))
      return false
    }
    await stage.settler.settle(payment, terms, identity, store, hold)
  }

  const now = { slot: stage.chain.slot(), ms: 0 }
  /** Lets slots pass, and the recovery look once a second. */
  async function pass(slots: number): Promise<void> {
    for (let i = 0; i < slots; i++) {
      stage.chain.advanceSlots(1)
      const lookedAt = Math.floor(now.ms / 1_000)
      now.ms += SLOT_MS
      stage.ahead += SLOT_MS
      if (Math.floor(now.ms / 1_000) > lookedAt) await recovery.round()
    }
  }
  /** How many slots pass until the payment is in this state. */
  async function slotsUntil({ identity }: Prepared, state: string): Promise<number> {
    for (let slots = 0; slots < 1_000; slots++) {
      if ((await ledger.find(identity.key))?.state === state) return slots
      await pass(1)
    }
    throw new Error(`Expected the payment to be ${state}, it is ${(await ledger.find(identity.key))?.state}.`)
  }
  return { ...stage, stage, ledger, storeAndDie, pass, slotsUntil }
}

t.test('what was stored and never sent lands within seconds of being taken over', async (t) => {
  const { stage, storeAndDie, pass, slotsUntil, chain, cast } = await stageWithLedger(t)
  const paid = await stage.pay()
  await pass(100)
  await storeAndDie(await stage.verify(paid))
  const slots = await slotsUntil(paid, 'settled')
  t.ok(slots * SLOT_MS <= LEASE_MS + 5_000, `after ${slots} slots`)
  t.equal(chain.balanceToken(usdc.address, addressOf(cast.seller)), price)
})

t.test(
  'what can not land any more is told within seconds of the finalized block that has forgotten its block hash',
  async (t) => {
    for (const age of [0, 60, 120, 148]) {
      const { stage, storeAndDie, pass, slotsUntil, chain } = await stageWithLedger(t)
      const paid = await stage.pay()
      await pass(age)
      const verified = await stage.verify(paid)
      chain.dropNext(1_000)
      await storeAndDie(verified)
      const slots = await slotsUntil(paid, 'failed_final')
      const known = Math.max(hashLife + finalizedAfter - age, LEASE_MS / SLOT_MS)
      t.ok(slots >= hashLife + finalizedAfter - age, `${age} slots old: after ${slots}, not before ${known}`)
      t.ok((slots - known) * SLOT_MS <= 6_000, `${age} slots old: after ${slots}, known after ${known}`)
    }
  },
)

t.test(
  'what would fail now is sent again while it can land, and lands when nothing is in its way',
  async (t) => {
    const { stage, storeAndDie, pass, slotsUntil, rpc } = await stageWithLedger(t)
    const paid = await stage.pay()
    await storeAndDie(await stage.verify(paid))
    const message = 'Transaction simulation failed: the payer has too little of the token'
    const lift = rpc.add('sendTransaction', { kind: 'error', code: -32_002, message })
    await pass(100)
    t.ok(rpc.calls('sendTransaction') >= 5)
    lift()
    t.ok((await slotsUntil(paid, 'settled')) * SLOT_MS <= 9_000)
  },
)
