import { setTimeout as sleep } from 'node:timers/promises'
import type { PaymentRequired } from '@x402/core/types'
import t from 'tap'
import { examine } from '../../cli/runtime/examine.ts'
import { openStore as openDatabase } from '../../cli/runtime/openStore.ts'
import { startApi } from '../e2e/helpers/api.ts'
import { type Bought, type Buyer, newBuyer, present } from '../e2e/helpers/buyers.ts'
import { newSellerWallets, startChains } from '../e2e/helpers/chains.ts'
import { type Child, startGateway } from '../e2e/helpers/child.ts'
import { writeConfig } from '../e2e/helpers/config.ts'
import { openStore } from '../e2e/helpers/store.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'

/** How often the gateway is killed; TOLLGATE_KILLS=500 is the promise, and takes half an hour. */
const kills = Number(process.env['TOLLGATE_KILLS'] ?? 20)
/** Paid calls that are begun a second. */
const rate = Number(process.env['TOLLGATE_KILL_RATE'] ?? 20)
const longestLifeMs = 1_500
const retryMs = 250
/** Calls under way at most: more would only wait for the processor. */
const mostOpen = 100
/** After the last kill, a buyer gives up after this. */
const patienceMs = 60_000

t.test(`killed ${kills} times under ${rate} paid calls a second, not a row is broken`, async (t) => {
  // Slots as long as the real chain's: a block hash has to outlive the recovery.
  const chains = await startChains(t, { solana: { slotMs: 400 } })
  const log = { level: 'info', format: 'json' }
  const config = await writeConfig(t, chains, { sections: { log } })
  const wallets = newSellerWallets(chains)
  const api = await startApi(t)
  const store = await openStore(config, chains.env, wallets)
  let gateway: Child = await startGateway(t, config, chains.env)
  const url = await store.addLink({ url: api.url, slug: 'load', price: '0.0001' })
  const offer = (await (await fetch(url)).json()) as PaymentRequired
  const buyers = await Promise.all(chains.both.map((chain) => newBuyer(chains, chain)))

  let giveUpAt = Number.POSITIVE_INFINITY
  /** One buyer's call: the same payment again and again until there is an answer that is final. */
  async function buy(buyer: Buyer, n: number): Promise<Bought> {
    const payment = await buyer.signOffer(offer)
    for (;;) {
      const answer = await present(`${url}?n=${n}`, payment).catch(() => undefined)
      if (answer !== undefined && answer.status < 500) return answer
      if (performance.now() > giveUpAt) {
        throw new Error(
          `call ${n} got no answer ${patienceMs} ms after the last kill; the last one: ${answer?.text ?? 'none'}`,
        )
      }
      await sleep(retryMs)
    }
  }

  const calls: Promise<Bought>[] = []
  let open = 0
  let isOpen = true
  const load = (async () => {
    for (let n = 0; isOpen; n++) {
      if (open < mostOpen) {
        open++
        const call = buy(buyers[n % 2]!, n).finally(() => open--)
        call.catch(() => undefined)
        calls.push(call)
      }
      await sleep(1_000 / rate)
    }
  })()
  for (let i = 0; i < kills; i++) {
    await sleep(Math.random() * longestLifeMs)
    gateway.signal('SIGKILL')
    t.equal((await gateway.exited).signal, 'SIGKILL')
    gateway = await startGateway(t, config, chains.env)
  }
  isOpen = false
  giveUpAt = performance.now() + patienceMs
  await load
  const answers = await Promise.all(calls)
  gateway.signal('SIGTERM')
  t.equal((await gateway.exited).code, 0)

  const bought = answers.filter(({ status }) => status === 200)
  const rest = answers.filter(({ status }) => status !== 200)
  t.comment(
    `${answers.length} calls, ${bought.length} bought, ${rest.length} refused, ${api.calls.length} worked`,
  )
  // A Solana payment that was interrupted too often is too old in the end; it was never sent.
  for (const { status, text, body } of rest) {
    t.equal(status, 400, text)
    t.equal(body.error?.reason, 'settle_exact_svm_block_height_exceeded', text)
  }
  t.ok(bought.length > answers.length / 2, 'most calls were answered')
  const ids = new Set(bought.map(({ body }) => body._svc!.purchaseId))
  t.equal(ids.size, bought.length, 'each answer has a purchase of its own')

  const books = await openDatabase(config.file, chains.env)
  t.teardown(() => books.close())
  const ledger = await checkedLedger(books.purchases)
  t.match(ledger, { unresolvedPayments: 0, refundDue: 0, broken: { length: 0 }, unbalanced: { length: 0 } })
  t.strictSame(
    new Set(ledger.transactions.map(({ purchaseId }) => purchaseId)),
    ids,
    'as many purchases as answers, and the same',
  )
  const transfers = await Promise.all(
    chains.both.map((chain) => chain.transfersTo(chain.name === 'evm' ? wallets.base : wallets.solana)),
  )
  t.strictSame(
    transfers.flat().sort(),
    ledger.transactions.map(({ transaction }) => transaction).sort(),
    'the transfers on chain are those in the books',
  )
  const findings = await examine(config.file, chains.env, { asksChains: true })
  t.strictSame(
    findings.filter(({ ok }) => !ok),
    [],
    'doctor finds nothing wrong',
  )
})
