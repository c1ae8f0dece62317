import type { Browser } from 'playwright-core'
import t, { type Test } from 'tap'
import { builtInAssets } from '../../core/domain/asset.ts'
import { feesAccountOf } from '../../core/domain/ledger.ts'
import { offersOf, openTerms } from '../../core/offers/offers.ts'
import { signInBrowser } from '../../test/helpers/admin-api/browser.ts'
import { sell } from '../../test/helpers/admin-api/sell.ts'
import { createScriptedSettler, testNetwork } from '../../test/helpers/settler.ts'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { openDashboard, sellersWallet } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { fitsItsWidth, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)
const monthMs = 31 * 24 * 60 * 60_000

/** A seller who owes fees to an operator with these wallets. */
async function shop(t: Test, payTo: string | null) {
  const settler = createScriptedSettler()
  const assets = builtInAssets.filter(({ network }) => network === testNetwork)
  const chains = { assets, settlers: [settler], settler: () => settler }
  const site = await startSite(t, {
    feesPayTo: { base: payTo, solana: null },
    offersOf: (sold) => offersOf(sold, chains, 300),
    termsOf: (sold) => openTerms(sold, chains, 300),
  })
  site.clock.nowMs = Date.now()
  const seller = sellersWallet()
  const { response: answer } = await signInBrowser(site, seller.wallet, { origin: site.url })
  const storeId: string = answer.body.data.store.id
  const sale = (amount: string, agoMs = 0, of = storeId) =>
    sell(site.db, { storeId: of, linkId: 'one', amount, atMs: site.clock.nowMs - agoMs })
  return {
    site,
    seller,
    sale,
    pay: (amount: string) => sale(amount, 0, feesAccountOf(storeId)),
  }
}

const view = ({ url }: { url: string }) => `${url}/dashboard/fees`
const operator = `0x${'4'.repeat(40)}`

function tests(browser: Browser): void {
  t.test(
    'what is owed has a button that leads to its checkout, and the invoice stands in the list',
    async (t) => {
      const { site, seller, sale, pay } = await shop(t, operator)
      await sale('20', 2 * monthMs)
      await sale('30')
      await pay('0.50')
      const { page, problems } = await openDashboard(t, browser, view(site), seller.inBrowser)
      await page.getByText('No invoices yet').waitFor()
      t.match(await page.getByRole('region', { name: 'Fees by month' }).textContent(), /Paid.*0\.50/s)
      await page.getByRole('button', { name: 'Pay fees: 2.00 USDC on Base Sepolia' }).click()
      await page.waitForURL(/\/pay\/checkout\//)
      await page.getByRole('heading', { name: /^Fees of @/, level: 1 }).waitFor()
      await page.goto(view(site))
      const invoices = page.getByRole('region', { name: 'Fee invoices' })
      t.match(await invoices.textContent(), /2 USDC.*Open/s)
      await invoices.getByRole('link', { name: 'Checkout' }).click()
      await page.waitForURL(/\/pay\/checkout\//)
      t.strictSame(problems, [])
    },
  )

  t.test('without a wallet of the operator there is no button, but words; a refusal is shown', async (t) => {
    const { site, seller, sale, pay } = await shop(t, null)
    await sale('20')
    const { page } = await openDashboard(t, browser, view(site), seller.inBrowser)
    await page.getByText('Tollgate has not set a wallet for fees on Base Sepolia').waitFor()
    t.equal(await page.getByRole('button', { name: /Pay fees/ }).count(), 0)
    await pay('3')
    await page.reload()
    await page.getByText('You have paid in advance').waitFor()

    const other = await shop(t, operator)
    await other.sale('20')
    const tab = (await openDashboard(t, browser, view(other.site), other.seller.inBrowser)).page
    const button = tab.getByRole('button', { name: /Pay fees/ })
    await button.waitFor()
    await other.pay('1')
    await button.click()
    await tab.getByRole('alert').getByText('No fees are owed now.').waitFor()
  })

  t.test('the view has its states: it loads, it failed and is asked again, it is empty', async (t) => {
    const { site, seller } = await shop(t, operator)
    const { page } = await openDashboard(t, browser, view(site), seller.inBrowser)
    await page.getByText('No fees yet').waitFor()
    const gate = Promise.withResolvers<void>()
    await page.route('**/api/v1/fees', async (route) => {
      await gate.promise
      await route.abort()
    })
    await page.reload()
    await page.locator('.shell-main .skeleton').waitFor()
    gate.resolve()
    await page.getByText('The data could not be loaded').waitFor()
    await page.unroute('**/api/v1/fees')
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.getByText('No fees yet').waitFor()
  })

  t.test(
    'a month opens beside the view as a statement, which fits a phone, A4 and Letter, without script',
    async (t) => {
      const { site, seller, sale, pay } = await shop(t, operator)
      await sale('20', 2 * monthMs)
      await sale('1234.567891')
      await pay('0.50')
      for (const colorScheme of ['light', 'dark'] as const) {
        for (const width of [360, 1280]) {
          const options = { colorScheme, viewport: { width, height: 800 } }
          const { page, problems } = await openDashboard(t, browser, view(site), seller.inBrowser, options)
          const about = `${colorScheme} at ${width}`
          await page.getByText('No invoices yet').waitFor()
          t.ok(await fitsItsWidth(page), `the view fits, ${about}`)
          t.strictSame(await seriousFindings(page), [], `what axe finds in the view, ${about}`)
          const [statement] = await Promise.all([
            page.waitForEvent('popup'),
            page
              .getByRole('link', { name: /statement to print/ })
              .first()
              .click(),
          ])
          await statement.getByRole('heading', { level: 1 }).waitFor()
          t.ok(await fitsItsWidth(statement), `the statement fits, ${about}`)
          t.strictSame(await seriousFindings(statement), [], `what axe finds in the statement, ${about}`)
          await statement.emulateMedia({ media: 'print', colorScheme })
          const colours =
            'const { color, backgroundColor } = getComputedStyle(document.documentElement); [color, backgroundColor]'
          t.strictSame(
            await statement.evaluate(colours),
            ['rgb(0, 0, 0)', 'rgb(255, 255, 255)'],
            `black on white, ${about}`,
          )
          t.notOk(await statement.getByText('All fees').isVisible(), 'paper leads nowhere')
          t.strictSame(problems, [])
        }
      }
      const signedIn = await openDashboard(t, browser, view(site), seller.inBrowser)
      const cookies = await signedIn.page.context().cookies()
      const context = await browser.newContext({ javaScriptEnabled: false })
      t.teardown(() => context.close())
      const plain = await context.newPage()
      const month = new Date(site.clock.nowMs).toISOString().slice(0, 7)
      await context.addCookies(cookies)
      await plain.goto(`${view(site)}/${month}`)
      await plain.getByText('Owed after').waitFor()
    },
  )
}

if (chromium !== undefined) tests(chromium)
