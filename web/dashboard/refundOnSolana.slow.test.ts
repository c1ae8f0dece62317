import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { callApi } from '../../cli/demo/storeApi.ts'
import { newSolanaSecret } from '../../localnet/demoWallets.ts'
import { newBuyer } from '../../test/e2e/helpers/buyers.ts'
import { eventually } from '../../test/e2e/helpers/eventually.ts'
import { startProduct } from '../../test/e2e/helpers/product.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { openTransport } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { seriousFindings } from '../../test/helpers/web/openSite.ts'
import { solanaTestWallet, type TestWallet } from '../../test/helpers/web/wallets/testWallets.ts'
import { buildWeb } from '../build.ts'

await buildWeb()
const chromium = await startBrowser(t)
const price = 10_000n

/**
 * The product on a local chain with the real token program, and a seller on Solana with two sales to one
 * buyer.
 */
async function shop(t: Test) {
  const { chains, tollgate, api, url } = await startProduct(t)
  const { solana } = chains
  const chain = chains.both.find(({ name }) => name === 'solana')!
  const seller = solanaTestWallet(newSolanaSecret(), solana.rpcUrl)
  solana.airdrop(seller.address, 1_000_000_000n)
  solana.createAta(seller.address)

  const identity = { address: seller.address, chain: 'solana' }
  const { message } = await callApi(url, 'POST', '/api/agent/auth/nonce', identity)
  const signature = await seller.request({
    method: 'signMessage',
    params: [Buffer.from(message).toString('base64')],
  })
  const { apiKey } = await callApi(url, 'POST', '/api/agent/signup', {
    ...identity,
    message,
    signature,
    username: 'bob',
  })
  const link = { url: `${api.url}/maps`, slug: 'maps', title: 'Maps', price: '0.01' }
  const { fullUrl } = await callApi(url, 'POST', '/api/v1/links', link, apiKey)

  const buyer = await newBuyer(chains, chain)
  const buy = async (): Promise<string> => {
    const { _svc } = await (await buyer.fetchV2(fullUrl)).json()
    return _svc.purchaseId
  }
  const bought = [await buy(), await buy()] as const
  const { purchases } = tollgate.stack.store
  return {
    url,
    seller,
    buyer,
    solana,
    bought,
    apiKey,
    /** USDC balances of the seller and the buyer. */
    balances: () => [seller.address, buyer.address].map((owner) => solana.balanceUsdc(owner)),
    /** Transfers of the buyer's tokens since the two sales, oldest first. */
    returned: async () => (await chain.transfersTo(buyer.address)).slice(bought.length),
    statusOf: async (id: string) => (await purchases.find(id))?.status,
  }
}

const refund = (page: Page) => page.getByRole('button', { name: 'Refund 0.01 USDC' })

function tests(browser: Browser): void {
  t.test(
    'one click pays a buyer on Solana back, once, and the transfer proves this refund only',
    async (t) => {
      const { url, seller, solana, bought, apiKey, balances, returned, statusOf } = await shop(t)
      const [first, second] = bought
      const [sellerHad, buyerHad] = balances() as [bigint, bigint]
      t.equal(sellerHad, 2n * price)
      const lamports = solana.balanceSol(seller.address)
      const { page, problems } = await openTransport(t, browser, `${url}/dashboard/purchases/${first}`, [
        seller,
      ])
      await page.getByRole('button', { name: /Solana test wallet/ }).click()

      seller.mood.declines.add('signAndSendTransaction')
      await refund(page).click()
      await page.getByText(/declined in Solana test wallet/).waitFor()
      t.strictSame(balances(), [sellerHad, buyerHad], 'a wallet that refuses leaves it open')
      seller.mood.declines.clear()

      await refund(page).dblclick()
      await page.getByText('Refunded', { exact: true }).first().waitFor()
      t.equal(await statusOf(first), 'refunded')
      t.strictSame(balances(), [sellerHad - price, buyerHad + price])
      t.ok(solana.balanceSol(seller.address) < lamports, 'the seller pays the fee')
      const [transaction, ...more] = await returned()
      t.strictSame(more, [], 'one transfer')
      t.strictSame(await seriousFindings(page), [])
      await page.reload()
      await page.getByText('Refunded', { exact: true }).first().waitFor()
      t.equal(await refund(page).count(), 0, 'nothing is left to refund')

      const repeat = (id: string) =>
        fetch(`${url}/api/v1/purchases/${id}/refunds`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` },
          body: JSON.stringify({ txHash: transaction }),
        })
      t.equal((await repeat(first)).status, 200, 'the same again says the same')
      t.not((await repeat(second)).status, 200, 'and pays back no other purchase')
      t.not(await statusOf(second), 'refunded')
      t.strictSame(balances(), [sellerHad - price, buyerHad + price])
      t.strictSame(problems, [])
    },
  )

  t.test(
    'a wallet that goes away, fails or sends in silence leaves the refund open, and nothing is sent twice',
    async (t) => {
      const { url, seller, solana, bought, balances, returned, statusOf } = await shop(t)
      const [first, second] = bought
      const [sellerHad, buyerHad] = balances() as [bigint, bigint]
      let mood: 'silent' | 'fails' | 'sends silently' = 'silent'
      let requested = Promise.withResolvers<void>()
      const wallet: TestWallet = {
        ...seller,
        async request(what) {
          if (what.method !== 'signAndSendTransaction') return seller.request(what)
          if (mood === 'fails') throw new Error('Transaction rejected: the node did not answer in time')
          if (mood === 'sends silently') await seller.request(what)
          requested.resolve()
          return new Promise(() => {})
        },
      }
      const { page, problems } = await openTransport(t, browser, `${url}/dashboard/purchases/${first}`, [
        wallet,
      ])
      await page.getByRole('button', { name: /Solana test wallet/ }).click()
      const maybe = page.getByText('The transfer may have been sent')
      const startOver = page.getByRole('button', { name: /start over/ })

      await refund(page).click()
      await requested.promise
      await page.reload()
      await maybe.waitFor()
      t.equal(await refund(page).count(), 0, 'no second click')
      t.strictSame(await seriousFindings(page), [])
      await startOver.click()
      mood = 'fails'
      await refund(page).click()
      await maybe.waitFor()
      await page.getByText(/failed: Transaction rejected/).waitFor()
      t.equal(await statusOf(first), 'delivered')
      t.strictSame(balances(), [sellerHad, buyerHad])

      await page.goto(`${url}/dashboard/purchases/${second}`)
      mood = 'sends silently'
      requested = Promise.withResolvers()
      await refund(page).click()
      await requested.promise
      await page.reload()
      await maybe.waitFor()
      t.equal(await refund(page).count(), 0)
      const transaction = await eventually(async () => (await returned())[0])
      await page.getByLabel('Transaction').fill(transaction)
      solana.advanceSlots(40)
      await page.getByRole('button', { name: 'Check and record the refund' }).click()
      await page.getByText('Refunded', { exact: true }).first().waitFor()
      t.equal(await statusOf(second), 'refunded')
      t.strictSame(balances(), [sellerHad - price, buyerHad + price])
      t.strictSame(problems, [])
    },
  )
}

if (chromium !== undefined) tests(chromium)
