import { Session } from 'node:inspector/promises'
import { relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createEvmCheck } from '../../adapters/chains/evm/check/payment.ts'
import { builtInAssets } from '../../core/domain/asset.ts'
import { systemClock } from '../../core/ports/clock.ts'
import { encodeHeader } from '../../core/x402/header.ts'
import { newAccount, signPayment, termsOf } from '../helpers/chains/evm/settler.ts'
import { startGateway } from '../helpers/gateway.ts'
import { startSeller } from '../helpers/sellers.ts'
import { createScriptedSettler, testNetwork, testPayTo } from '../helpers/settler.ts'

/** How many files a reader can follow in one sitting: CONTRIBUTING.md walks through them. */
const MAX_FILES = 64
const CALLS = 40

const root = resolve(import.meta.dirname, '../..')
/** Of the bench, of tests, and what only a test gateway has: the guard of undeclared slots, and a log that writes nothing. */
const notOfTheProduct = /^(?:test|bench|node_modules)\/|^core\/(?:kernel\/slotGuard|ports\/log)\.ts$/

t.test(`a paid call runs functions of at most ${MAX_FILES} files`, async (t) => {
  const seller = await startSeller(t, 'hello')
  const settler = createScriptedSettler()
  const terms = termsOf({ amount: '100000', payTo: testPayTo })
  settler.check = createEvmCheck({ network: testNetwork, assets: builtInAssets, clock: systemClock })
  let onDelivered = () => {}
  const { addLink } = await startGateway(t, {
    settlers: [settler],
    dbPath: resolve(t.testdir(), 'tollgate.db'),
    adaptLedger: (ledger) => ({
      ...ledger,
      async apply(change) {
        const isDone = await ledger.apply(change)
        if (change.to === 'delivered') onDelivered()
        return isDone
      },
    }),
  })
  const link = await addLink({ slug: 'paid', url: seller.url, price: '0.10' })
  const buyer = newAccount()

  async function pay(): Promise<void> {
    const { payload } = await signPayment(buyer, terms)
    const header = encodeHeader({ x402Version: 2, accepted: terms, payload })
    const delivered = new Promise<void>((resolve) => (onDelivered = resolve))
    const response = await fetch(link.url, { headers: { 'payment-signature': header } })
    t.equal(response.status, 200)
    await response.text()
    await delivered
  }

  const session = new Session()
  session.connect()
  await session.post('Profiler.enable')
  await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  /** Files of which a function ran since the last time. */
  async function filesRun(): Promise<string[]> {
    const { result } = await session.post('Profiler.takePreciseCoverage')
    return result
      .filter(
        ({ url, functions }) =>
          url.startsWith('file:') && functions.some(({ ranges }) => ranges[0]!.count > 0),
      )
      .map(({ url }) => relative(root, fileURLToPath(url)))
      .filter((file) => !notOfTheProduct.test(file))
  }

  await pay()
  let files = await filesRun()
  // What runs once, or now and then beside the calls, is in some of them only.
  for (let call = 0; call < CALLS; call++) {
    await pay()
    const run = new Set(await filesRun())
    files = files.filter((file) => run.has(file))
  }
  session.disconnect()
  for (const known of ['gateway/server.ts', 'core/payments/engine.ts', 'plugins/upstream/call.ts'])
    t.ok(files.includes(known), `${known} is on the way`)
  t.ok(files.length <= MAX_FILES, `${files.length} files`, { files: files.sort() })
})
