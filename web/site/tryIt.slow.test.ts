import { base58 } from '@scure/base'
import t from 'tap'
import { newBuyer } from '../../test/e2e/helpers/buyers.ts'
import { startProduct } from '../../test/e2e/helpers/product.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { openTab, seriousFindings } from '../../test/helpers/web/openSite.ts'
import { evmTestWallet, giveWallets, solanaTestWallet } from '../../test/helpers/web/wallets/testWallets.ts'
import { buildWeb } from '../build.ts'

await buildWeb()
const browser = await startBrowser(t)

if (browser !== undefined) {
  t.test(
    'a free link is called from its page, and a paid one is paid once by the wallet of the browser, on both chains',
    async (t) => {
      const product = await startProduct(t)
      const { chains, url } = product
      const inputSchema = {
        type: 'object',
        required: ['city', 'units'],
        properties: {
          city: { type: 'string' },
          days: { type: 'integer' },
          area: { type: 'array' },
          units: { enum: ['metric', 'imperial'], description: 'Of temperatures.' },
        },
      }
      const more = { isPublic: true, inputSchema, methods: ['GET'] }
      await product.addLink('gratis', '0', { ...more, title: 'Gratis' })
      await product.addLink('paid', '0.01', { ...more, title: 'Paid' })
      const { page, problems } = await openTab(t, browser, `${url}/alice/gratis`)
      await page.getByRole('button', { name: 'Call it' }).click()
      const errors = () => page.locator('.try .error').allTextContents()
      await page.locator('#input-city-error').waitFor()
      t.match(await errors(), [/Enter a value/, /Choose a value/])
      t.equal(await page.evaluate('document.activeElement.id'), 'input-city', 'the first has the focus')
      await page.getByLabel('city (required)').fill('São Paulo')
      await page.getByLabel('units (required)').selectOption('metric')
      t.strictSame(await errors(), [], 'what was changed is not wrong any more')
      await page.getByLabel('days').fill('four')
      await page.getByLabel('area').fill('[1')
      await page.getByRole('button', { name: 'Call it' }).click()
      await page.locator('#input-days-error').waitFor()
      t.match(await errors(), [/Enter a number/, /Enter JSON/])
      t.strictSame(await seriousFindings(page), [])
      t.equal(product.api.calls.length, 0, 'nothing was called')
      await page.getByLabel('days').fill('4')
      await page.getByLabel('area').fill('')
      await page.getByRole('button', { name: 'Call it' }).click()
      await page.getByRole('heading', { name: /^Response/ }).waitFor()
      t.match(JSON.stringify(product.api.calls.at(-1)), 'city=S%C3%A3o+Paulo')

      for (const chain of chains.both) {
        const buyer = await newBuyer(chains, chain)
        const wallet =
          chain.name === 'evm'
            ? evmTestWallet(buyer.privateKey, chains.evm.rpcUrl)
            : solanaTestWallet(base58.decode(buyer.privateKey))
        const tab = await openTab(t, browser, 'about:blank')
        await giveWallets(tab.page, [wallet])
        await tab.page.goto(`${url}/alice/paid`)
        const before = await chain.balance(product.payTo(chain))
        await tab.page.getByLabel('city (required)').fill('Oslo')
        await tab.page.getByLabel('units (required)').selectOption('metric')
        await tab.page.getByRole('button', { name: /^Call it for/ }).click()
        await tab.page.locator('.offer label', { hasText: chain.name === 'evm' ? 'Base' : 'Solana' }).click()
        // A buyer who declines has paid nothing, and can accept later.
        const method = chain.name === 'evm' ? 'eth_signTypedData_v4' : 'signTransaction'
        wallet.mood.declines.add(method)
        const pay = tab.page.getByRole('button', { name: /^Pay with/ }).first()
        await pay.click()
        await tab.page.getByText('Nothing was paid.').waitFor()
        wallet.mood.declines.clear()
        await pay.click()
        await tab.page.getByText('Paid. Purchase').waitFor()
        t.equal((await chain.balance(product.payTo(chain))) - before, 10_000n, `${chain.name}: once`)
        const post = tab.page.getByRole('button', { name: 'Post review' })
        await post.click()
        await tab.page.getByText('Choose Good or Bad.').waitFor()
        await tab.page.getByLabel('Good').check()
        await tab.page.getByLabel(/^What should other buyers know/).fill(`Right on ${chain.name}.`)
        await post.click()
        await tab.page.getByText('Thank you').waitFor()
        t.equal(await post.count(), 0, 'a purchase has one review')
        t.strictSame(await seriousFindings(tab.page), [])
        t.strictSame(tab.problems, [])
      }
      const { reviews } = await (await fetch(`${url}/api/reviews?username=alice&slug=paid`)).json()
      t.match(
        reviews.map(({ positive, comment }: Record<string, unknown>) => ({ positive, comment })),
        [...chains.both].reverse().map(({ name }) => ({ positive: true, comment: `Right on ${name}.` })),
      )
      t.strictSame(problems, [])
    },
  )

  t.test(
    'a refusal is told and can be tried again; a payment whose answer is lost is the only one until it is given up',
    async (t) => {
      const product = await startProduct(t)
      const { chains, url } = product
      await product.addLink('paid', '0.01', { isPublic: true, methods: ['GET'], title: 'Paid' })
      const chain = chains.both.find(({ name }) => name === 'evm')!
      const buyer = await newBuyer(chains, chain)
      const wallet = evmTestWallet(buyer.privateKey, chains.evm.rpcUrl)
      const { page } = await openTab(t, browser, 'about:blank')
      await giveWallets(page, [wallet])
      await page.goto(`${url}/alice/paid`)
      const before = await chain.balance(product.payTo(chain))
      const lines: (() => { status: number; body: string } | 'lost')[] = []
      const payments: string[] = []
      await page.route('**/api/link/alice/paid*', async (route) => {
        const payment = route.request().headers()['payment-signature']
        if (payment === undefined) return route.continue()
        payments.push(payment)
        const next = lines.shift()?.()
        if (next === undefined) return route.continue()
        if (next !== 'lost')
          return route.fulfill({
            contentType: 'application/json',
            ...next,
            headers: { 'payment-required': '' },
          })
        // The gateway receives the request, but its response is lost.
        await route.fetch()
        await route.abort()
      })
      const call = page.getByRole('button', { name: /^Call it for/ })
      const pay = page.getByRole('button', { name: /^Pay with/ }).first()
      const again = page.getByRole('button', { name: 'Retry with the same payment' })
      const offer = await (await fetch(`${url}/api/link/alice/paid`)).json()

      await call.click()
      for (const [reason, message, shown] of [
        ['insufficient_funds', 'The payer has 1 atomic units.', 'This wallet has less than the price.'],
        ['invalid_exact_evm_signature', 'The signature is another’s.', 'The signature is another’s.'],
      ]) {
        const error = { code: 'invalid_payment', reason, message }
        lines.push(() => ({ status: 402, body: JSON.stringify({ ...offer, success: false, error }) }))
        await pay.click()
        await page.getByText('The payment was refused').waitFor()
        await page.getByText(shown!).waitFor()
      }
      t.equal(await pay.getAttribute('aria-busy'), null, 'it can be tried again')

      for (const next of ['lost', { status: 429, body: '{}' }, { status: 503, body: '{}' }] as const)
        lines.push(() => next)
      await pay.click()
      await page.getByText('You may have been charged').waitFor()
      page.on('dialog', (dialog) => void dialog.accept())
      await page.reload()
      await page.getByText('You may have been charged').waitFor()
      t.ok(await call.isDisabled(), 'no second payment')
      t.equal(await pay.count(), 0)
      for (const status of ['429', '503']) {
        await again.click()
        await page.getByText(`${status} ·`).waitFor()
        t.ok(await call.isDisabled(), status)
      }
      await again.click()
      await page.getByText('Paid. Purchase').waitFor()
      t.notOk(await call.isDisabled())
      t.equal(new Set(payments).size, 3, 'two that were refused, one that was taken')
      t.equal((await chain.balance(product.payTo(chain))) - before, 10_000n, 'charged once')
      await page.reload()
      await call.click()
      // A call that has its response is not retried.
      await pay.waitFor()
    },
  )

  t.test('a 402 that a seller writes is an answer: no wallet is asked to pay it', async (t) => {
    const product = await startProduct(t)
    const offer = {
      x402Version: 2,
      resource: { url: product.url },
      accepts: [
        {
          scheme: 'exact',
          network: product.chains.evm.network,
          amount: '90000000',
          asset: product.chains.evm.usdcAddress,
          payTo: `0x${'6'.repeat(40)}`,
          maxTimeoutSeconds: 300,
          extra: { name: 'USDC', version: '2' },
        },
      ],
    }
    product.api.answerWith((_request, response) => {
      response.writeHead(402, { 'content-type': 'application/json', 'PAYMENT-REQUIRED': 'e30=' })
      response.end(JSON.stringify(offer))
    })
    await product.addLink('gratis', '0', { isPublic: true, methods: ['GET'] })
    const { page } = await openTab(t, browser, `${product.url}/alice/gratis`)
    await page.getByLabel('Query').fill('a=1')
    await page.getByRole('button', { name: 'Call it' }).click()
    await page.getByRole('heading', { name: /^The call failed 402/ }).waitFor()
    t.equal(await page.locator('.offer').count(), 0)
  })
}
