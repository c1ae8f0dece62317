import t from 'tap'
import { startBrowser } from '../../vault/testing/browser.ts'
import { fitsItsWidth, openTab, seriousFindings, startSite } from '../testing/openSite.ts'

const browser = await startBrowser(t)

if (browser !== undefined)
  t.test(
    'guides and the API reference fit, in light and in dark, and axe finds nothing serious',
    async (t) => {
      const site = await startSite(t)
      for (const colorScheme of ['light', 'dark'] as const) {
        for (const width of [360, 1280]) {
          const options = { viewport: { width, height: 800 }, colorScheme }
          const { page, problems, elsewhere } = await openTab(t, browser, `${site.url}/docs`, options)
          for (const path of ['/docs', '/docs/sellers', '/docs/api']) {
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
