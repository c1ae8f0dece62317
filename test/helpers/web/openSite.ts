import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import type { Test } from 'tap'
import { buildWeb } from '../../../web/build.ts'
import { type Fixture, startAdmin } from '../admin-api/startAdmin.ts'
import { freePort } from '../freePort.ts'

/** The service with its pages on a real port, as they are in the tree now. */
export interface Site extends Fixture {
  readonly url: string
}

let built: Promise<unknown> | undefined

/** Starts the control plane over memory; `overrides` as of `startAdmin`. */
export async function startSite(t: Test, overrides: Parameters<typeof startAdmin>[1] = {}): Promise<Site> {
  await (built ??= buildWeb())
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const fixture = await startAdmin(t, { publicUrl: url, ...overrides })
  await fixture.admin.listen({ host: '127.0.0.1', port })
  return { ...fixture, url }
}

export interface OpenedPage {
  readonly page: Page
  /** Scripts' errors and broken rules of the page's policy; a test ends with none. */
  readonly problems: readonly string[]
  /** Addresses that the page asked for outside of the service. */
  readonly elsewhere: readonly string[]
}

/** A tab in a browser profile of its own, at a path of the site. */
export async function openTab(
  t: Test,
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const context = await browser.newContext(options)
  t.teardown(() => context.close())
  context.setDefaultTimeout(30_000)
  const page = await context.newPage()
  const problems: string[] = []
  const elsewhere: string[] = []
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('console', (message) => {
    // A refusal is shown by the page itself; Chromium writes it down as well.
    if (message.type() === 'error' && !/^Failed to load resource/.test(message.text()))
      problems.push(message.text())
  })
  const { origin } = new URL(url)
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`) && !request.url().startsWith('data:')) {
      elsewhere.push(request.url())
    }
  })
  await page.goto(url)
  return { page, problems, elsewhere }
}

/** What axe-core finds of serious or critical weight, as lines; a page is done with none. */
export async function seriousFindings(page: Page): Promise<string[]> {
  const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
  // Over the debugger: the page's policy takes no scripts from elsewhere.
  await page.evaluate(axe)
  const { violations } = (await page.evaluate('axe.run(document)')) as {
    violations: { id: string; impact: string; nodes: { target: string[]; failureSummary: string }[] }[]
  }
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map((node) => `${id} at ${node.target.join(' ')}: ${node.failureSummary}`),
    )
}

/** True where nothing makes the page wider than its window. */
export const fitsItsWidth = (page: Page): Promise<boolean> =>
  page.evaluate('document.documentElement.scrollWidth <= document.documentElement.clientWidth')
