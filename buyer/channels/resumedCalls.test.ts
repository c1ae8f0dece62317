import t from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createPaymentFiles } from '../../cli/pay/paymentFiles.ts'
import { startEvmWorld } from '../../test/helpers/buyer/evmWorld.ts'
import { offer, startSeller } from '../../test/helpers/buyer/seller.ts'
import { createEvmBuyer } from '../chains/evmBuyer.ts'
import { payForUrl } from '../payForUrl.ts'
import type { PayOptions } from '../payOptions.ts'

const world = await startEvmWorld(t)
const { chain, privateKey } = world
const extra = {
  name: 'USDC',
  version: '2',
  receiverAuthorizer: privateKeyToAccount(generatePrivateKey()).address,
  withdrawDelay: 86_400,
}

/** A seller of channels that fails every paid call, and a buyer with its files. */
async function startBrokenSeller(folder: string) {
  const terms = { scheme: 'batch-settlement', maxTimeoutSeconds: 10, extra }
  const seller = await startSeller((request, response, { url }) => {
    if (request.payment === null) return offer(response, world.offerFor(url, terms))
    response.writeHead(500).end()
  })
  t.teardown(() => seller.close())
  const payments = createPaymentFiles(`${folder}/payments`)
  const pay = (n: number, more: Partial<PayOptions> = {}) =>
    payForUrl({
      url: `${seller.url}?n=${n}`,
      wallets: { eip155: createEvmBuyer({ privateKey, rpcUrl: chain.rpcUrl }) },
      rpcUrl: chain.rpcUrl,
      deposit: '1',
      payments,
      retryDelaysMs: [],
      ...more,
    })
  const deposits = () => {
    const payloads = seller.paid().map(({ payment }) => payment!['payload'] as { deposit?: object })
    return new Set(payloads.map(({ deposit }) => JSON.stringify(deposit)))
  }
  return { seller, terms, payments, pay, deposits }
}

t.test('a resumed call whose deposit has expired leaves the newer deposit in the record', async (t) => {
  const { terms, pay, deposits } = await startBrokenSeller(t.testdir())
  t.match(await pay(0), { outcome: 'unknown' })
  await chain.advanceTime(60)
  terms.maxTimeoutSeconds = 3_600
  t.match(await pay(1), { outcome: 'unknown' })
  t.equal(deposits().size, 2, 'the first deposit has expired, so there is a second one')
  t.match(await pay(0), { outcome: 'unknown' })
  t.match(await pay(2), { outcome: 'unknown' })
  t.equal(deposits().size, 2, 'the second deposit can still land')
})

t.test('a call is not resumed while another run uses its channel', async (t) => {
  const { seller, payments, pay } = await startBrokenSeller(t.testdir())
  const { channel } = await pay(0)
  const lock = await payments.lock(channel!.id)
  t.match(await pay(0, { timeoutMs: 500 }), {
    outcome: 'under_way',
    charged: 'no',
    message: /Other runs used the wallet's channel/,
  })
  t.equal(seller.paid().length, 1, 'nothing was sent')
  lock!.release()
  t.match(await pay(0), { outcome: 'unknown' })
  t.equal(seller.paid().length, 2)
})

t.test('a run whose channel another run has taken over sends and stores nothing', async (t) => {
  const { seller, payments, pay } = await startBrokenSeller(t.testdir())
  const { channel } = await pay(0)
  const before = await payments.findChannel(channel!.id)
  const lost: PayOptions['payments'] = {
    ...payments,
    async lock(id) {
      const lock = await payments.lock(id)
      return id === channel!.id ? { release: () => lock!.release(), isOurs: () => false } : lock
    },
  }
  t.match(await pay(1, { payments: lost }), { outcome: 'under_way', charged: 'no' })
  t.equal(seller.paid().length, 1)
  t.strictSame(await payments.findChannel(channel!.id), before)
})
