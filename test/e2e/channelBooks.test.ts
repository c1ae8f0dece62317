import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import t from 'tap'
import { encodeFunctionData, type Hex } from 'viem'
import { generatePrivateKey } from 'viem/accounts'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import batchSettlement from '../../localnet/evm/artefacts/BatchSettlement.json' with { type: 'json' }
import { BATCH_SETTLEMENT_ADDRESS } from '../../localnet/evm/startLocalEvm.ts'
import { channelsSection, newChannelBuyer } from './helpers/channelBuyer.ts'
import { startSale, watchNow } from './helpers/channelSale.ts'
import type { Product } from './helpers/product.ts'

const bookNow = ({ tollgate }: Product) => tollgate.stack.channelBooking!.runNow()

async function get({ url, store }: Product, path: string, accept = 'application/json') {
  const headers = { authorization: `Bearer ${store.apiKey}`, accept }
  const response = await fetch(`${url}/api/v1/${path}`, { headers })
  return { response, text: await response.text() }
}

const dataOf = async (product: Product, path: string) => JSON.parse((await get(product, path)).text).data

const findingsOf = async (product: Product) =>
  (await product.doctor()).filter(({ subject }) => subject === 'payment channels')

t.test('a deposit is no revenue, a charged call is, and the fee is owed once it is claimed', async (t) => {
  const { product, url, buyer } = await startSale(t, { claimAmount: '0.04' })
  for (let n = 1; n < 3; n++) t.equal((await buyer.fetch(`${url}?n=${n}`)).status, 200)
  await watchNow(product)
  await bookNow(product)
  t.match(await dataOf(product, 'stats?period=7d'), { buyers: 1, revenue: /^0\.030*$/ })
  t.match(await dataOf(product, 'fees'), { months: [], owed: [] })
  const sums = { calls: 3, earned: '0.03', claimed: '0.00', unclaimed: '0.03', writtenOff: '0.00' }
  t.match(await dataOf(product, 'channels'), {
    totals: [{ currency: 'USDC', chain: 'base', ...sums }],
    channels: [
      { payer: buyer.address, receiver: product.wallets.base, balance: '0.10', problem: null, ...sums },
    ],
    nextCursor: null,
  })

  t.equal((await buyer.fetch(`${url}?n=3`)).status, 200)
  await watchNow(product)
  await bookNow(product)
  t.match(await dataOf(product, 'channels'), {
    totals: [{ calls: 4, earned: '0.04', claimed: '0.04', unclaimed: '0.00' }],
  })
  t.match(await dataOf(product, 'fees'), {
    months: [{ sales: 1, salesAmount: '0.04', fees: '0.002' }],
    owed: [{ amount: '0.002', currency: 'USDC' }],
  })
  t.match(await dataOf(product, 'stats?period=7d'), { revenue: /^0\.040*$/ })
  const { response, text } = await get(product, 'channels', 'text/csv')
  t.match(response.headers.get('content-type'), 'text/csv')
  t.match(text, /^id,openedAt,payer.*\r\n0x[0-9a-f]{64},.*,4,0\.04,0\.04,0\.00,0\.00,0\.10,0\.00,USDC,base/)
  t.match(await findingsOf(product), [{ ok: true, message: '1 channels, 0 with unclaimed money' }])
})

t.test(
  'a wallet that cannot receive keeps no refund back, and is shown as not paid out until the next claim',
  async (t) => {
    const { product, evm, url, buyer } = await startSale(t, { claimAmount: '0.01' })
    const { chains, wallets } = product
    await chains.evm.setBlacklisted(wallets.base as Hex, true)
    t.match(await buyer.scheme.refund(url), { success: true })
    const due = { calls: 1, earned: '0.01', claimed: '0.01', unclaimed: '0.00', notPaidOut: '0.01' }
    await watchNow(product)
    await bookNow(product)
    t.equal(await evm.balance(product.wallets.base), 0n)
    t.match(await dataOf(product, 'channels'), { totals: [due] })
    t.match(await findingsOf(product), [
      { ok: true },
      { isWarning: true, message: /10000 atomic units.*not paid out/ },
    ])

    await chains.evm.setBlacklisted(wallets.base as Hex, false)
    t.equal((await (await newChannelBuyer(chains)).fetch(url)).status, 200)
    await watchNow(product)
    await bookNow(product)
    t.equal(await evm.balance(product.wallets.base), 20_000n)
    t.match(await dataOf(product, 'channels'), { totals: [{ claimed: '0.02', notPaidOut: '0.00' }] })
  },
)

t.test('calls are booked although channels were removed from the configuration', async (t) => {
  const { product } = await startSale(t)
  const { config, chains, tollgate } = product
  const [evm] = chains.both
  const { rpcUrl } = chains.evm
  // As after a crash between the call and its booking.
  await tollgate.stack.channelBooking!.stop()
  const buyer = await newChannelBuyer(chains)
  const link = await product.addLink('other')
  t.equal((await buyer.fetch(`${link}?n=0`)).status, 200)
  const earned = (await dataOf(product, 'channels')).totals[0].earned
  await tollgate.close()
  const facilitator = { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}' }
  config.rewrite({ networks: { [evm.network]: { rpcUrls: [rpcUrl], facilitator } } })
  const next = await startTollgate(await readConfig(config.file, chains.env), {
    env: chains.env,
    log: silentLog,
  })
  t.teardown(() => next.close())
  await next.stack.channelBooking?.runNow()
  t.match(await dataOf(product, 'stats?period=7d'), { revenue: new RegExp(`^${earned}0*$`) })
})

t.test('what a withdrawal leaves without balance is written off, and both sides see it', async (t) => {
  const { product, url, buyer } = await startSale(t)
  t.equal((await buyer.fetch(`${url}?n=1`)).status, 200)
  const { config } = product.tollgate.stack.ports.channels!.book.all[Symbol.iterator]().next().value!.channel
  const { evm } = product.chains
  await evm.rpc('anvil_impersonateAccount', buyer.address)
  await evm.fundEth(buyer.address as `0x${string}`, 10n ** 18n)
  const send = (functionName: string, ...more: unknown[]) => {
    const call = { abi: batchSettlement.abi, functionName, args: [config, ...more] }
    const data = encodeFunctionData(call as never)
    return evm.send({ from: buyer.address, to: BATCH_SETTLEMENT_ADDRESS, data })
  }
  await send('initiateWithdraw', 90_000n)
  await evm.rpc('evm_increaseTime', 3_601)
  await evm.rpc('evm_mine')
  await send('finalizeWithdraw')
  await watchNow(product)
  await bookNow(product)
  const sums = { calls: 2, earned: '0.02', claimed: '0.00', unclaimed: '0.01', writtenOff: '0.01' }
  t.match(await dataOf(product, 'channels'), { totals: [sums], channels: [{ balance: '0.01', ...sums }] })
  t.match(await findingsOf(product), [
    { ok: true, message: '1 channels, 1 with unclaimed money' },
    { ok: true, isWarning: true, message: /owes 0\.01 USDC more than its balance.*written off/ },
  ])
})

t.test(
  'doctor finds channels whose books, vouchers or keys are wrong, and what a withdrawal has cost',
  async (t) => {
    const { product, url, buyer } = await startSale(t, {}, { store: 'sqlite' })
    t.equal((await buyer.fetch(`${url}?n=1`)).status, 200)
    await bookNow(product)
    t.match(await findingsOf(product), [{ ok: true, message: '1 channels, 1 with unclaimed money' }])
    const database = new DatabaseSync(join(product.config.dir, 'data/tollgate.db'))
    t.teardown(() => database.close())
    const { signature } = database.prepare('SELECT signature FROM channels').get()!
    const tampered: [change: string, found: RegExp][] = [
      ["UPDATE channel_sales SET amount = '1'", /its calls add up to/],
      ["UPDATE channels SET charged = '30000'", /was charged 0\.03 USDC, and its calls add up to 0\.02/],
      ['UPDATE channels SET signature = zeroblob(65)', /a voucher that does not sign its total of 0\.02/],
      ["UPDATE channel_totals SET charged = '1'", /its sales add up to 20000/],
    ]
    for (const [change, found] of tampered) {
      database.exec(change)
      const problems = (await findingsOf(product)).filter(({ ok, message }) => !ok && found.test(message))
      t.equal(problems.length, 1, change)
      database.exec("UPDATE channel_sales SET amount = '20000'; UPDATE channel_totals SET charged = '20000'")
      database.prepare("UPDATE channels SET charged = '20000', signature = ?").run(signature!)
    }
    const { evm } = product.chains
    const networks = {
      [evm.network]: {
        rpcUrls: [evm.rpcUrl],
        facilitator: { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}' },
        ...channelsSection({ authorizerKeys: [generatePrivateKey()] }),
      },
    }
    product.config.rewrite({ networks })
    t.match(await findingsOf(product), [
      { ok: true },
      { ok: false, message: /owes 0\.02 USDC, and the key of its authorizer 0x[0-9a-f]{40} is not among/ },
    ])
  },
)
