import type { Browser } from 'playwright-core'
import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillStore } from '../../test/helpers/web/dashboard/fullStore.ts'
import { openDashboard, sellersWallet } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { fitsItsWidth, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

function tests(browser: Browser): void {
  for (const colorScheme of ['light', 'dark'] as const)
    t.test(`a table of prices is edited with the keyboard, on a narrow screen, ${colorScheme}`, async (t) => {
      const site = await startSite(t)
      site.clock.nowMs = Date.now()
      const seller = sellersWallet()
      await fillStore(site, seller.wallet)
      const { page } = await openDashboard(t, browser, `${site.url}/dashboard`, seller.inBrowser)
      await page.setViewportSize({ width: 360, height: 800 })
      await page.emulateMedia({ colorScheme })
      await page.goto(`${site.url}/dashboard/links/new`)
      await page.getByLabel('Title').fill('Images')
      await page.getByLabel('Address of your API').fill(await site.seller())
      await page.getByLabel('Pricing').selectOption('rules')
      const rule = (number: number) => page.getByRole('group', { name: `Rule ${number}`, exact: true })
      const press = async (name: string) => {
        await page.getByRole('button', { name, exact: true }).focus()
        await page.keyboard.press('Enter')
      }
      await press('Add rule')
      await rule(2).getByLabel('is one of').fill('render')
      await rule(2).getByLabel('Price, USDC').fill('0.03')
      t.ok(await fitsItsWidth(page))
      t.strictSame(await seriousFindings(page), [])
      const create = page.getByRole('button', { name: 'Create link' })
      await create.click()
      await rule(2)
        .getByText(/Expected a path/)
        .waitFor()
      t.equal((await page.locator('[role=alert]:visible').all()).length, 1, 'the error is at its rule, once')
      await rule(2).locator(':focus').waitFor()

      await rule(2).getByLabel('is one of').fill('/render/*, /draw')
      await press('Add condition of rule 2')
      const second = page.getByRole('group', { name: 'Condition 2 of rule 2' })
      await second.getByLabel('If').selectOption('path')
      await page.getByText(/Two conditions compare the same part/).waitFor()
      await create.click()
      await page
        .getByText(/into one condition/)
        .first()
        .waitFor()
      await second.getByLabel('If').selectOption('query')
      await second.getByLabel('Parameter').fill('size')
      await second.getByLabel('is one of').fill('large')
      await press('Move up rule 2')
      t.equal(await rule(1).getByLabel('Price, USDC').inputValue(), '0.03')
      await page.getByLabel('Every other request', { exact: true }).selectOption('refused')
      t.ok(await fitsItsWidth(page))
      await create.click()
      await page.getByText('Your link is ready').waitFor()
      const price = await page.evaluate(async () => {
        const { data } = await (await fetch('/api/v1/links?q=Images')).json()
        return data.links[0].price
      })
      t.strictSame(price, {
        rules: [
          { when: { path: ['/render/*', '/draw'], query: { size: 'large' } }, price: '0.03' },
          { when: { method: 'POST', path: '/render/*', query: { size: 'large' } }, price: '0.05' },
        ],
        otherwise: null,
      })
    })
}

if (chromium !== undefined) tests(chromium)
