import t, { type Test } from 'tap'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createEvmBuyer } from '../../buyer/chains/evmBuyer.ts'
import { refundChannel } from '../../buyer/channels/refundChannel.ts'
import { payForUrl } from '../../buyer/payForUrl.ts'
import type { PayOptions } from '../../buyer/payOptions.ts'
import { createPaymentFiles } from '../../cli/pay/paymentFiles.ts'
import { reportAsText } from '../../cli/pay/printReport.ts'
import { LOCAL_USDC_ADDRESS } from '../../localnet/evm/startLocalEvm.ts'
import { channelsSection } from './helpers/channelBuyer.ts'
import { earnings } from './helpers/channelSale.ts'
import { startProduct } from './helpers/product.ts'

async function startShop(t: Test, assets: object[] = []) {
  const product = await startProduct(t, { evm: channelsSection(), sections: { assets } })
  const { evm } = product.chains
  const privateKey = generatePrivateKey()
  const { address } = privateKeyToAccount(privateKey)
  await evm.mintUsdc(address, 10_000_000n)
  const url = await product.addLink('metered')
  const payments = createPaymentFiles(`${t.testdir()}/payments`)
  const optionsOf = (n: number | string, more: Partial<PayOptions> = {}): PayOptions => ({
    url: `${url}?n=${n}`,
    wallets: { eip155: createEvmBuyer({ privateKey, rpcUrl: evm.rpcUrl }) },
    rpcUrl: evm.rpcUrl,
    network: 'eip155:84532',
    payments,
    retryDelaysMs: [10, 10],
    ...more,
  })
  const pay = (n: number | string, more?: Partial<PayOptions>) => payForUrl(optionsOf(n, more))
  const refund = (more?: Partial<PayOptions>) => refundChannel(optionsOf('refund', more))
  const balance = () => evm.balanceUsdc(address)
  return { product, url, payments, pay, refund, balance, address, optionsOf, privateKey }
}

t.test('a deposit pays calls by vouchers, and the rest comes back', async (t) => {
  const { product, pay, refund, balance } = await startShop(t)
  const first = await pay(0, { deposit: '1' })
  t.match(
    first,
    {
      outcome: 'paid',
      isVerified: true,
      charged: 'yes',
      chargedAmount: '0.01',
      transaction: /^0x/,
      channel: { left: '0.99', withdrawDelaySeconds: 3_600 },
      stateFile: null,
    },
    first.message,
  )
  t.match(reportAsText(first), /left +0\.99 USDC in the channel 0x/)
  t.equal(await balance(), 9_000_000n)
  for (const [n, more] of [[1], [2, { deposit: '1' }], [3]] as const) {
    const report = await pay(n, more)
    t.match(
      report,
      { outcome: 'paid', isVerified: true, transaction: null, channel: { left: `0.9${8 - n + 1}` } },
      report.message,
    )
  }
  t.equal(await balance(), 9_000_000n, 'one deposit')
  t.match(await earnings(product), { calls: 4, chargedAtomic: 40_000n })
  t.match(await refund(), { outcome: 'refunded', isVerified: true, channel: { left: '0.00' } })
  t.equal(await balance(), 9_960_000n)
  t.match(await refund(), { outcome: 'refused', message: /Nothing is left/ })
  t.match(await pay(4), { outcome: 'paid', payment: { scheme: 'exact' } }, 'an empty channel is not filled')
  t.match(await pay(5, { deposit: '0.5' }), { outcome: 'paid', channel: { left: '0.49' } }, 'but on request')
})

t.test('a deposit by Permit2 pays calls once the wallet has allowed Permit2', async (t) => {
  const usdc = { network: 'eip155:84532', address: LOCAL_USDC_ADDRESS, transferMethod: 'permit2' }
  const { product, pay, refund, balance, address } = await startShop(t, [usdc])
  const { evm } = product.chains
  await evm.allowPermit2(address, 999_999n)
  t.match(await pay(0, { deposit: '1' }), { outcome: 'refused', message: /Permit2 may move 0\.999999 USDC/ })
  await evm.allowPermit2(address)
  const first = await pay(0, { deposit: '1' })
  t.match(
    first,
    { outcome: 'paid', isVerified: true, transaction: /^0x/, channel: { left: '0.99' } },
    first.message,
  )
  t.equal(await balance(), 9_000_000n)
  t.match(await pay(1), { outcome: 'paid', isVerified: true, transaction: null, channel: { left: '0.98' } })
  t.match(await refund(), { outcome: 'refunded', isVerified: true, channel: { left: '0.00' } })
  t.equal(await balance(), 9_980_000n)
})

/** Stores like a process that is killed at its nth write. */
function killedAt(payments: PayOptions['payments'], write: number): PayOptions['payments'] {
  let writes = 0
  const store = async <T>(work: () => Promise<T>): Promise<T> => {
    if (writes >= write) throw new TypeError('killed')
    writes++
    const value = await work()
    if (writes === write) throw new TypeError('killed')
    return value
  }
  return {
    ...payments,
    save: (id, payment) => store(() => payments.save(id, payment)),
    saveChannel: (record) => store(() => payments.saveChannel(record)),
    remove: (name) => store(() => payments.remove(name)),
  }
}

for (const write of [1, 2, 3, 4])
  t.test(
    `a run that is killed at its write ${write} signs no second deposit and loses no money`,
    async (t) => {
      const { product, pay, payments, refund, balance } = await startShop(t)
      const deposit = '1'
      await pay(0, { deposit, payments: killedAt(payments, write) }).catch((error) => {
        t.equal(error.message, 'killed')
      })
      const other = await pay(1, { deposit })
      t.match(other, { outcome: 'paid', channel: {} }, other.message)
      await pay(0, { deposit })
      const last = await pay(0, { deposit })
      t.match(last, { outcome: 'paid' }, last.message)
      t.equal(await balance(), 9_000_000n, 'one deposit')
      const { calls, chargedAtomic } = await earnings(product)
      t.equal(chargedAtomic, BigInt(calls) * 10_000n)
      t.match(await refund(), { outcome: 'refunded' })
      t.equal(await balance(), 10_000_000n - chargedAtomic, 'the rest came back')
    },
  )

t.test('a run that lost the response gets it again for the same voucher', async (t) => {
  const { product, pay, payments } = await startShop(t)
  await pay(0, { deposit: '1' })
  await pay(1, { payments: killedAt(payments, 3) }).catch(() => undefined)
  t.match(await earnings(product), { calls: 2 })
  const again = await pay(1)
  t.match(again, { outcome: 'paid', isVerified: true, channel: { left: '0.98' } }, again.message)
  t.match(await earnings(product), { calls: 2 }, 'not charged twice')
  t.equal(product.api.calls.length, 2)
})

t.test('a wallet without its records finds its channel by the chain and the seller', async (t) => {
  const { pay, optionsOf, balance, product } = await startShop(t)
  for (const n of [0, 1, 2]) await pay(n, { deposit: '1' })
  const payments = createPaymentFiles(`${t.testdirName}/elsewhere`)
  const report = await payForUrl({ ...optionsOf(3), payments, deposit: '1' })
  t.match(report, {
    outcome: 'paid',
    channel: { left: '0.96' },
    warnings: [/corrected .* from 0\.00 to 0\.03/],
  })
  // The other folder has signed the same voucher, so the seller's proof could also be this call's own.
  t.match(await pay(4), { outcome: 'bad_response', charged: 'unknown' })
  const again = await pay(4)
  t.match(again, { outcome: 'paid', channel: { left: '0.95' } }, again.message)
  t.equal(await balance(), 9_000_000n)
  t.match(await earnings(product), { calls: 5 })
})

t.test('many runs at once share one deposit', async (t) => {
  const { pay, balance, product } = await startShop(t)
  const all = await Promise.all(Array.from({ length: 8 }, (_, n) => pay(n, { deposit: '1' })))
  for (const report of all) t.match(report, { outcome: 'paid', isVerified: true }, report.message)
  t.equal(await balance(), 9_000_000n)
  t.match(await earnings(product), { calls: 8, chargedAtomic: 80_000n })
})

t.test('a channel is filled up to the deposit, and never above it', async (t) => {
  const { pay, balance, product, optionsOf } = await startShop(t)
  const deposit = '0.1'
  for (let n = 0; n < 10; n++) t.match(await pay(n, { deposit }), { outcome: 'paid' })
  t.equal(await balance(), 9_900_000n)
  t.match(await pay(10, { deposit }), { outcome: 'paid', channel: { left: '0.09' } })
  t.equal(await balance(), 9_800_000n)
  t.match(await pay(11, { deposit, maxUsd: '0.005' }), { outcome: 'above_cap' }, 'a cap holds for each call')
  const dear = await product.addLink('dear', '0.5')
  const little = await payForUrl({ ...optionsOf(0), url: dear, deposit: '0.2' })
  t.match(little, { outcome: 'refused', message: /deposit of at least 5\.00 USDC/ }, little.message)
})
