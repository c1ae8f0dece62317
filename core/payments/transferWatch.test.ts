import t from 'tap'
import { testClock } from '../../test/contracts/samples.ts'
import { openTestStore } from '../../test/helpers/store/testStore.ts'
import { builtInAssets } from '../domain/asset.ts'
import { SESSION_LIFETIME_MS } from '../domain/session.ts'
import type { FoundTransfer, TransferVerdict } from '../ports/chains/transferProofs.ts'
import { silentLog } from '../ports/log.ts'
import { createRecovery } from './recovery.ts'
import { createTransfers } from './transfers.ts'
import { createTransferWatch } from './transferWatch.ts'

const network = 'eip155:84532'
const asset = builtInAssets.find((one) => one.network === network)!
const payTo = '0x00000000000000000000000000000000000000a1'
const paid: FoundTransfer = {
  key: 'a'.repeat(64),
  nonce: '0x1',
  transaction: `0x${'1'.repeat(64)}`,
  event: 'transfer:0',
  from: '0x00000000000000000000000000000000000000b1',
  amountAtomic: 1_000_000n,
  block: 7,
  atMs: 0,
}
const unknown = { status: 'pending', transaction: paid.transaction, isKnown: false } as const
const gone: TransferVerdict = { ...unknown, seenUpTo: 8 }
const there: TransferVerdict = { status: 'found', transfers: [paid] }

/** A payment session that a transfer has confirmed, and a recovery that queries a chain controlled by the test. */
async function confirmed() {
  const [clock, storeClock] = [testClock(), testClock()]
  const store = openTestStore({ clock, storeClock })
  const chain = { verdict: there }
  const lease = { current: (await store.leases.take('process:1', 60_000))! }
  const common = {
    ledger: store.ledger,
    sessions: store.sessions,
    notes: { tokenHash: () => 'hash' },
    lease,
    clock,
    log: silentLog,
  }
  const transfers = createTransfers({ ...common, chains: { assets: builtInAssets } })
  const watch = createTransferWatch({ prove: async () => chain.verdict }, clock)
  const recovery = createRecovery({
    ...common,
    leases: store.leases,
    purchases: store.purchases,
    refundProofs: { prove: async () => ({ status: 'not_configured' }) },
    payments: { isUnderWay: () => false, withhold: () => () => {} },
    chains: {
      assets: builtInAssets,
      settlers: [{ network }] as never,
      settler: (_, scheme) => (scheme === 'transfer' ? watch : undefined),
    },
  })
  const session = await store.sessions.create({
    id: '00000000-0000-4000-8000-000000000001',
    storeId: 'store-1',
    linkId: null,
    secretHash: 'h',
    payout: { base: null, solana: null },
    asks: null,
    price: '1',
    title: 'A chair',
    description: '',
    successUrl: null,
    cancelUrl: null,
    allowedOrigin: null,
    clientReferenceId: null,
    metadata: {},
    idempotency: null,
    createdAtMs: clock.nowMs,
    expiresAtMs: clock.nowMs + SESSION_LIFETIME_MS,
  })
  const booked = await transfers.book(session, { ...paid, network, asset: asset.address, payTo })
  if (booked.status !== 'confirmed') throw new Error(booked.status)
  return {
    store,
    chain,
    transfers,
    session,
    /** Time passes, and recovery checks what is due. */
    async readTransfer(ms: number) {
      clock.nowMs += ms
      storeClock.nowMs += ms
      await recovery.round()
    },
    stands: async () => ({
      payment: (await store.ledger.find(paid.key))!.state,
      purchase: (await store.purchases.find(booked.purchaseId))!.status,
      session: (await store.sessions.find(session.id))!.state,
      summary: await store.purchases.ledgerCheck(),
    }),
  }
}

const sound = { broken: { length: 0 }, unbalanced: { length: 0 } }

t.test('a transfer that stays on chain stays booked', async (t) => {
  const { readTransfer, stands, store } = await confirmed()
  await readTransfer(31_000)
  await readTransfer(300_000)
  t.match(await stands(), { payment: 'delivered', purchase: 'delivered', summary: sound })
  t.strictSame(await store.ledger.due({ states: ['delivered'], limit: 5 }), [], 'and is let be')
})

t.test('one that leaves the chain is taken out of the books, and booked anew when it is back', async (t) => {
  const { readTransfer, stands, chain } = await confirmed()
  chain.verdict = gone
  await readTransfer(31_000)
  t.match(await stands(), { payment: 'delivered' }, 'one look is not enough')
  await readTransfer(6_000)
  t.match(await stands(), { payment: 'reorged', purchase: 'reorged', summary: { purchases: 0, ...sound } })
  chain.verdict = there
  await readTransfer(3_000)
  t.match(await stands(), {
    payment: 'delivered',
    purchase: 'delivered',
    session: 'confirmed',
    summary: { purchases: 1, ...sound },
  })
})

t.test('one that does not come back is given up after a day; a failed one is gone as well', async (t) => {
  const { readTransfer, stands, chain } = await confirmed()
  chain.verdict = { status: 'mismatch', what: 'failed' }
  await readTransfer(31_000)
  await readTransfer(6_000)
  t.match(await stands(), { payment: 'reorged' })
  await readTransfer(60_000)
  t.match(await stands(), { payment: 'reorged' })
  await readTransfer(25 * 60 * 60 * 1000)
  t.match(await stands(), { payment: 'failed_final', purchase: 'reorged', summary: sound })
})

t.test('a chain that does not answer, or is behind, takes nothing out of the books', async (t) => {
  const silent: TransferVerdict[] = [
    { status: 'unavailable', message: 'away' },
    { status: 'not_configured' },
    { status: 'pending', transaction: paid.transaction, isKnown: true },
    { ...unknown, seenUpTo: 7 },
    unknown,
  ]
  for (const verdict of silent) {
    const { readTransfer, stands, chain } = await confirmed()
    chain.verdict = verdict
    for (let i = 0; i < 5; i++) await readTransfer(31_000)
    t.match(await stands(), { payment: 'delivered', purchase: 'delivered' }, verdict.status)
  }
})
