import t, { type Test } from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { newBuyer } from '../e2e/helpers/buyers.ts'
import { newSellerWallets, startChains } from '../e2e/helpers/chains.ts'
import { startGateway } from '../e2e/helpers/child.ts'
import { writeConfig } from '../e2e/helpers/config.ts'
import { eventually } from '../e2e/helpers/eventually.ts'
import { openSession, paySessionWith, readSession, signSession } from '../e2e/helpers/sessions.ts'
import { openStore } from '../e2e/helpers/store.ts'

/** Where the gateway is killed while a session is paid: each but the last before the buyer has an answer. */
const points = ['stored', 'broadcast', 'mined', 'answered'] as const

/**
 * Kills a gateway (SIGKILL) at one point of a session's payment and starts another on the same data: the session is confirmed
 * once, by the transfer that is on chain, its event is written once, and the buyer who comes back hears so.
 */
async function killAndRecover(t: Test, which: 0 | 1, point: (typeof points)[number]): Promise<void> {
  const chains = await startChains(t, { solana: { slotMs: 400 } })
  const chain = chains.both[which]
  const { rpc, methods } = chain
  const config = await writeConfig(t, chains, { sections: { log: { level: 'info', format: 'json' } } })
  const wallets = newSellerWallets(chains)
  const payTo = which === 0 ? wallets.base : wallets.solana
  const { apiKey } = await openStore(config, chains.env, wallets)
  const first = await startGateway(t, config, chains.env)
  const hook = await fetch(`${config.url}/api/v1/webhooks`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
    body: JSON.stringify({ url: 'https://receiver.example.com/hook' }),
  })
  const isHeard = hook.status === 201
  const session = await openSession(config.url, apiKey, { amount: '0.50', title: 'A chair' })
  const buyer = await newBuyer(chains, chain)
  const payment = await signSession(session, buyer)
  const had = await chain.balance(buyer.address)

  const lost = paySessionWith(session, payment).catch((): undefined => undefined)
  if (point === 'stored') {
    rpc.add(methods.broadcast, { kind: 'refuse' })
    await rpc.whenCalled(methods.broadcast)
  } else if (point === 'broadcast') {
    await chain.hold()
    rpc.add(methods.broadcast, { kind: 'drop-answer' })
    await eventually(async () => (rpc.forwarded(methods.broadcast) > 0 ? true : undefined))
  } else if (point === 'mined') {
    rpc.add(methods.status, { kind: 'refuse' })
    await rpc.whenCalled(methods.status)
  } else t.equal((await lost)?.status, 200)
  first.signal('SIGKILL')
  t.equal((await first.exited).signal, 'SIGKILL')
  await lost

  rpc.clear()
  await startGateway(t, config, chains.env)
  if (point === 'broadcast') await chain.release()
  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  await eventually(async () => {
    const now = await books.sessions.find(session.id)
    return now?.state === 'confirmed' ? now : undefined
  }, 30_000)
  const confirmed = await readSession(session)
  const again = await paySessionWith(session, payment)
  t.equal(again.status, 200, again.text)
  t.strictSame(again.body.data, confirmed)
  t.equal(had - (await chain.balance(buyer.address)), 500_000n, 'charged once')
  t.strictSame(await chain.transfersTo(payTo), [confirmed['txHash']])

  const ledger = await books.purchases.ledgerCheck()
  t.match(ledger, { purchases: 1, unresolvedPayments: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
  const purchase = await books.purchases.find(String(confirmed['purchaseId']))
  t.match(purchase, { sessionId: session.id, status: 'delivered', amountAtomic: 500_000n })
  if (isHeard) {
    const [endpoint] = await books.webhooks.ofStore(purchase!.storeId)
    const deliveries = await eventually(async () => {
      const page = await books.webhooks.deliveries(endpoint!.id, { limit: 9 })
      return page.deliveries.length >= 2 ? page.deliveries : undefined
    })
    t.strictSame(deliveries.map(({ kind }) => kind).toSorted(), ['payment.confirmed', 'purchase.confirmed'])
  }
}

t.jobs = 4
for (const which of [0, 1] as const)
  for (const point of points)
    t.test(
      `killed when ${point} on ${which === 0 ? 'evm' : 'solana'}: a session is confirmed once`,
      { buffered: true },
      (t) => killAndRecover(t, which, point),
    )
