import type { Browser, Page } from 'playwright-core'
import t, { type Test } from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fillStore } from '../../test/helpers/web/dashboard/fullStore.ts'
import { openDashboard, sellersWallet } from '../../test/helpers/web/dashboard/openDashboard.ts'
import { fitsItsWidth, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'

const chromium = await startBrowser(t)

/** A store, and an API with seven operations, of which one fails and one is deprecated. */
async function importing(t: Test, browser: Browser, width = 1280) {
  const site = await startSite(t)
  site.clock.nowMs = Date.now()
  const seller = sellersWallet()
  const { storeId } = await fillStore(site, seller.wallet)
  const api = { isWell: false }
  const url = await site.seller((request, response) => {
    // Makes an import take more than one request.
    site.clock.nowMs += 3_000
    response.statusCode = request.url!.includes('broken') && !api.isWell ? 503 : 200
    response.end('{}')
  })
  const paths = {
    ...Object.fromEntries(
      Array.from({ length: 5 }, (_, i) => [`/part/${i}`, { get: { summary: `Part ${i}` } }]),
    ),
    '/broken': { get: {} },
    '/old': { get: { deprecated: true } },
  }
  const openapi = {
    openapi: '3.1.0',
    info: { title: 'Parts' },
    servers: [{ url: new URL(url).origin }],
    paths,
  }
  const address = `${site.url}/dashboard/links/import`
  const opened = await openDashboard(t, browser, address, seller.inBrowser, {
    viewport: { width, height: 800 },
  })
  const present = await site.db.links.countOf(storeId)
  const made = async () => (await site.db.links.countOf(storeId)) - present
  return { ...opened, site, api, made, document: JSON.stringify(openapi) }
}

const give = (page: Page, text: string, name = 'openapi.json') =>
  page.getByLabel('OpenAPI document').setInputFiles({
    name,
    mimeType: 'application/json',
    buffer: Buffer.from(text),
  })

const fine = async (t: Test, page: Page, what: string) => {
  t.ok(await fitsItsWidth(page), `${what} fits`)
  t.strictSame(await seriousFindings(page), [], `${what}: what axe finds`)
}

function tests(browser: Browser): void {
  t.test(
    'a document is looked at, made, and where a part failed tried again: nothing is made twice',
    async (t) => {
      const { page, problems, api, made, document } = await importing(t, browser, 360)
      await give(page, document)
      await page.getByRole('button', { name: 'Preview' }).click()
      await page.getByRole('heading', { name: 'Preview' }).waitFor()
      await page.getByText('6 to be created, 1 skipped.').waitFor()
      await fine(t, page, 'what it would make')
      t.equal(await made(), 0, 'nothing is made before')
      await page.getByRole('link', { name: 'Cancel' }).click()
      await page.getByRole('heading', { name: 'Leave without saving?' }).waitFor()
      await fine(t, page, 'the question')
      await page.getByRole('button', { name: 'Stay here' }).click()
      await page.getByRole('button', { name: 'Create 6 links' }).click()
      await page.getByText('5 created, 1 failed, 1 skipped.').waitFor()
      await fine(t, page, 'a part that failed')
      t.equal(await made(), 5)
      await page.getByLabel('Show').selectOption('Failed')
      t.match(await page.getByRole('table').textContent(), /GET \/broken.*503/s)
      t.equal(await page.getByRole('row').count(), 2, 'the heading and the one')
      api.isWell = true
      await page.getByRole('button', { name: 'Try again' }).click()
      await page.getByText('The document was imported').waitFor()
      t.equal(await made(), 6)
      await page.getByRole('link', { name: 'Go to your links' }).click()
      await page.getByLabel('Search').fill('PART-3')
      await page.keyboard.press('Enter')
      await page.getByRole('link', { name: 'Part 3', exact: true }).waitFor()
      await page.getByRole('link', { name: 'Part 2', exact: true }).waitFor({ state: 'detached' })
      t.match(page.url(), /q=PART-3/)
      await page.getByLabel('State').selectOption('Suspended')
      await page.getByText('No links match').waitFor()
      t.strictSame(problems, [])
    },
  )

  t.test('an answer that is lost stops it where it was; it goes on from there', async (t) => {
    const { page, made, api, document } = await importing(t, browser)
    api.isWell = true
    await give(page, document)
    await page.getByRole('button', { name: 'Preview' }).click()
    const make = page.getByRole('button', { name: 'Create 6 links' })
    await make.waitFor()
    let requests = 0
    const offsets: number[] = []
    await page.route('**/api/v1/links/import', async (route) => {
      offsets.push(route.request().postDataJSON().offset)
      // The request is carried out, but its response is lost.
      if (++requests === 2) await route.fetch().then(() => route.abort())
      else await route.continue()
    })
    await make.click()
    await page.getByText(/did not respond/).waitFor()
    t.ok(Number(await page.locator('progress').getAttribute('value')) > 0)
    await fine(t, page, 'one that stopped')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByText('The document was imported').waitFor()
    t.equal(offsets[2], offsets[1], 'the same again')
    t.equal(await made(), 6)
  })

  t.test('what is wrong stands at its field, and what was foretold goes with a change', async (t) => {
    const { page, document } = await importing(t, browser)
    const preview = page.getByRole('button', { name: 'Preview' })
    await preview.click()
    await page.getByText('Choose a file, or paste the document.').waitFor()
    await give(page, ' '.repeat(16_100_000), 'large.json')
    await page.getByText(/^large\.json is 16\.1 MB/).waitFor()
    await page.getByText('Text', { exact: true }).click()
    await page.getByLabel('OpenAPI document').fill('swagger: 2')
    await preview.click()
    await page.getByRole('alert').first().waitFor()
    await page.getByLabel('OpenAPI document').fill(document)
    await page.getByLabel('Other prices').fill('POST /nowhere = 1')
    await preview.click()
    await page
      .locator('#rules-error')
      .getByText(/matches no operation/)
      .waitFor()
    await fine(t, page, 'a refusal')
    await page.getByLabel('Other prices').fill('GET /part/1 = none')
    await preview.click()
    await page.getByText('5 to be created, 2 skipped.').waitFor()
    t.equal(await page.evaluate('document.activeElement.textContent'), 'Preview')
    await page.getByLabel('Price per call, USDC').fill('0.02')
    await page.getByRole('heading', { name: 'Preview' }).waitFor({ state: 'detached' })
  })
}

if (chromium !== undefined) tests(chromium)
