import t from 'tap'
import { readConfig } from '../../cli/runtime/readConfig.ts'
import { startTollgate } from '../../cli/runtime/startTollgate.ts'
import { silentLog } from '../../core/ports/log.ts'
import { present, read } from './helpers/buyers.ts'
import { channelsSection, inTurn, newChannelBuyer, signVoucher } from './helpers/channelBuyer.ts'
import { sendAsPayer, voucherFor, watchNow } from './helpers/channelSale.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

const AT_ONCE = 20
const CALLS = 100

// Two gateways on one database with one settling key, and a link that both sell.
const product = await startProduct(t, { evm: channelsSection({ minDeposit: '1' }) })
const { chains, config, api } = product
const [evm] = chains.both
const { file } = await config.beside('second')
const second = await startTollgate(await readConfig(file, chains.env), { env: chains.env, log: silentLog })
t.teardown(() => second.close())
const url = await product.addLink('channel')
const atSecond = url.replace(config.url, second.gatewayUrl)
await eventually(async () => ((await fetch(atSecond)).status === 402 ? true : undefined))
const newBuyer = () => newChannelBuyer(chains, 50_000_000n, inTurn([config.url, second.gatewayUrl]))

/** Calls and amount that were charged, and how often the seller has worked, since the last time. */
const last = { calls: 0, chargedAtomic: 0n, worked: 0 }
async function charged() {
  const { stores, channels } = second.stack.store
  const [sum] = await channels.earnings((await stores.byUsername('alice'))!.id)
  const now = { calls: sum!.calls, chargedAtomic: sum!.chargedAtomic, worked: api.calls.length }
  const since = {
    calls: now.calls - last.calls,
    chargedAtomic: now.chargedAtomic - last.chargedAtomic,
    worked: now.worked - last.worked,
  }
  Object.assign(last, now)
  return since
}
const each = (calls: number) => ({ calls, chargedAtomic: BigInt(calls) * 10_000n, worked: calls })

t.test('calls that reach two gateways in turn are all sold, each once', async (t) => {
  const buyers = await Promise.all(Array.from({ length: AT_ONCE / 2 }, newBuyer))
  for (const buyer of buyers) {
    const first = await read(await buyer.fetch(`${url}?first`))
    t.equal(first.status, 200, first.text)
  }
  // Two calls at once on each channel.
  let n = 0
  await Promise.all(
    [...buyers, ...buyers].map(async (buyer) => {
      while (n < CALLS) {
        const { status, text } = await read(await buyer.fetch(`${url}?n=${n++}`))
        t.equal(status, 200, text)
      }
    }),
  )
  const calls = n + buyers.length
  t.same(await charged(), each(calls))
  for (const buyer of buyers) t.match(await buyer.scheme.refund(url), { success: true })
  let spent = 0n
  for (const { address } of buyers) spent += 50_000_000n - (await evm.balance(address))
  t.equal(spent, BigInt(calls) * 10_000n)
})

t.test('twenty calls at once on one channel are sold by two gateways', async (t) => {
  const buyer = await newBuyer()
  t.equal((await buyer.fetch(`${url}?n=0`)).status, 200)
  const all = await Promise.all(
    Array.from({ length: AT_ONCE }, async (_, n) => read(await buyer.fetch(`${url}?n=${n + 1}`))),
  )
  for (const { status, text } of all) t.equal(status, 200, text)
  t.same(await charged(), each(AT_ONCE + 1))
})

t.test('one voucher, a hundred times at once over both: one call, one charge', async (t) => {
  const buyer = await newBuyer()
  t.equal((await buyer.fetch(`${url}?n=0`)).status, 200)
  const voucher = await voucherFor(buyer, `${url}?n=1`)
  const all = await Promise.all(
    Array.from({ length: 100 }, (_, i) => present(`${i % 2 === 0 ? url : atSecond}?n=1`, voucher)),
  )
  const served = all.filter(({ status }) => status === 200)
  t.ok(served.length > 0)
  t.ok(served.every(({ text }) => text === served[0]!.text))
  t.same(await charged(), each(2))
})

t.test('either gateway takes deposits and refunds, whichever has the settling key', async (t) => {
  for (const at of [url, atSecond]) {
    const buyer = await newChannelBuyer(chains)
    const bought = await read(await buyer.fetch(`${at}?n=0`))
    t.match(bought, { status: 200, receipt: { transaction: /^0x/, amount: '1000000' } }, bought.text)
    t.match(await buyer.scheme.refund(at), { success: true, amount: '990000', transaction: /^0x/ })
  }
  t.same(await charged(), each(2))
})

t.test('old vouchers, a withdrawal and an emptied channel gain nothing at either gateway', async (t) => {
  const both = [url, atSecond]
  const watchBoth = async () => {
    for (const tollgate of [product.tollgate, second]) await watchNow({ tollgate })
  }
  const buyer = await newChannelBuyer(chains)
  for (const [n, at] of [...both, ...both].entries()) t.equal((await buyer.fetch(`${at}?n=${n}`)).status, 200)
  const books = [product.tollgate, second].flatMap(({ stack }) => [...stack.ports.channels!.book.all])
  const { config } = books.find(
    ({ channel }) => channel.config.payer === buyer.address.toLowerCase(),
  )!.channel
  /** Presents a voucher to both at once, and one after the other. */
  const presentToBoth = async (max: bigint, reason: RegExp) => {
    const voucher = await signVoucher(buyer, url, { max })
    const refused = await Promise.all(both.map((at) => present(`${at}?n=9`, voucher)))
    for (const at of both) refused.push(await present(`${at}?n=9`, voucher))
    for (const one of refused) t.match(one, { status: 402, body: { error: { reason } } }, one.text)
  }
  for (const max of [10_000n, 30_000n, 40_000n]) await presentToBoth(max, /amount_mismatch/)
  await sendAsPayer(product, 'initiateWithdraw', [config, 960_000n])
  await watchBoth()
  const { chain } = [...product.tollgate.stack.ports.channels!.networks.values()][0]!
  t.match(await chain.read([chain.channelId(config)]), [{ totalClaimed: 40_000n }], 'all that was sold')
  await presentToBoth(50_000n, /exceeds_balance/)
  await presentToBoth(40_000n, /below_claimed/)
  await chains.evm.advanceTime(3_601)
  await sendAsPayer(product, 'finalizeWithdraw', [config])
  await watchBoth()
  await presentToBoth(50_000n, /exceeds_balance/)
  await presentToBoth(40_000n, /below_claimed/)
  t.equal(await evm.balance(buyer.address), 49_960_000n)
  t.same(await charged(), each(4))
})
