import { pathToFileURL } from 'node:url'
import t from 'tap'
import { startBrowser } from '../../test/helpers/vault/browser.ts'
import { fitsItsWidth, openTab, seriousFindings, startSite } from '../../test/helpers/web/openSite.ts'
import { buildDocs } from './build/buildDocs.ts'

const browser = await startBrowser(t)

if (browser !== undefined) {
  await buildDocs()

  t.test(
    'documentation and API reference fit, in light and in dark, and axe finds nothing serious',
    async (t) => {
      const site = await startSite(t)
      for (const colorScheme of ['light', 'dark'] as const) {
        for (const width of [360, 1280]) {
          const options = { viewport: { width, height: 800 }, colorScheme }
          const { page, problems, elsewhere } = await openTab(t, browser, `${site.url}/docs`, options)
          for (const path of [
            '/docs/',
            '/docs/tutorials/sell-your-api.html',
            '/docs/search.html?q=vault',
            '/docs/api',
          ]) {
            await page.goto(site.url + path)
            if (path === '/docs/api') {
              await page.locator('.opblock').first().waitFor()
              t.strictSame(await seriousFindings(page), [], `${path}, closed, ${colorScheme} at ${width}`)
              await page.locator('.opblock-summary-control').nth(5).click()
              await page.locator('.opblock-body').waitFor()
            }
            t.strictSame(await seriousFindings(page), [], `${path} ${colorScheme} at ${width}`)
            t.ok(await fitsItsWidth(page), `${path} fits ${width}`)
          }
          t.strictSame([problems, elsewhere], [[], []])
        }
      }
    },
  )

  t.test('a keyboard searches: / goes to the field, Enter shows what was found, and it opens', async (t) => {
    const site = await startSite(t)
    const { page, problems } = await openTab(t, browser, `${site.url}/docs/tutorials/sell-your-api.html`)
    await page.keyboard.press('/')
    await page.keyboard.type('write a plugin')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/docs/search.html?q=*')
    const first = page.locator('#page-results a').first()
    await first.waitFor()
    t.match(await page.locator('#page-count').textContent(), /^\d+ results$/)
    const marks = await page.locator('#page-results li').first().locator('mark').allTextContents()
    t.match(marks.join(' '), /plugin/i)
    await page.keyboard.press('Tab')
    while ((await page.evaluate('document.activeElement.matches("#page-results a")')) === false)
      await page.keyboard.press('Tab')
    const words = await page.evaluate('document.activeElement.textContent')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\.html#/)
    t.match(words, /plugin/i)
    t.strictSame(problems, [])
  })

  t.test('a code block is copied by its button', async (t) => {
    const site = await startSite(t)
    const options = { permissions: ['clipboard-read', 'clipboard-write'] }
    const { page } = await openTab(t, browser, `${site.url}/docs/tutorials/sell-your-api.html`, options)
    const code = page.locator('.code').first()
    await code.getByRole('button', { name: 'Copy' }).click()
    await code.getByRole('button', { name: 'Copied' }).waitFor()
    t.equal(await page.evaluate('navigator.clipboard.readText()'), await code.locator('code').textContent())
  })

  t.test('the same files open from a disk, and the search finds there as well', async (t) => {
    const url = pathToFileURL(`${import.meta.dirname}/../dist/docs/index.html`).href
    const { page, problems } = await openTab(t, browser, url)
    await page.getByRole('link', { name: 'Sell your own API' }).first().click()
    await page.locator('#page-search').fill('faucet')
    await page.keyboard.press('Enter')
    await page.locator('#page-results a').first().waitFor()
    t.strictSame(problems, [])
  })
}
