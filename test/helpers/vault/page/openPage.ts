import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import type { Test } from 'tap'
import type { VaultEvent } from '../../../../vault/host/bus.ts'
import { createOwnerPage } from '../../../../vault/page/ownerPage.ts'
import { systemVaultClock } from '../../../../vault/ports/clock.ts'
import { buildVaultPage } from '../../../../web/build.ts'
import { type RunningVault, type StartOptions, startVault } from '../startVault.ts'

await buildVaultPage()

export interface PageVault extends RunningVault {
  /** Tells every open page of something, as if it had happened. */
  tell(event: VaultEvent): void
}

/** A vault with its page, by the real clock: the browser has no other. */
export async function startPageVault(t: Test, options: StartOptions = {}): Promise<PageVault> {
  const vault = await startVault(t, { mounts: [createOwnerPage()], clock: systemVaultClock, ...options })
  const { api } = vault
  const { watch } = api
  const listeners = new Set<(event: VaultEvent) => void>()
  api.watch = (context, listener) => {
    listeners.add(listener)
    const stop = watch(context, listener)
    return () => {
      listeners.delete(listener)
      stop()
    }
  }
  const tell = (event: VaultEvent) => {
    for (const listener of listeners) listener(event)
  }
  return { ...vault, tell }
}

/** A link that opens the vault's page once. */
export const linkOf = async (vault: RunningVault): Promise<string> =>
  (await vault.asOwner('POST', '/v1/vault/owner/links', {})).body.url

export interface OpenedPage {
  readonly page: Page
  /** Scripts' errors and broken rules of the page's CSP; a test ends with none. */
  readonly problems: readonly string[]
  /** Addresses that the page asked for outside of the vault. */
  readonly elsewhere: readonly string[]
}

/** A tab in a browser profile of its own. */
export async function openTab(
  t: Test,
  browser: Browser,
  vault: RunningVault,
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const context = await browser.newContext(options)
  t.teardown(() => context.close())
  context.setDefaultTimeout(60_000)
  const page = await context.newPage()
  return { page, ...watch(page, vault) }
}

/** A tab in which the owner has signed in, with the vault open. */
export async function openPage(
  t: Test,
  browser: Browser,
  vault: RunningVault,
  options: BrowserContextOptions = {},
): Promise<OpenedPage> {
  const opened = await openTab(t, browser, vault, options)
  await opened.page.goto(await linkOf(vault))
  await opened.page.getByRole('heading', { name: 'Approvals', level: 1 }).waitFor()
  return opened
}

/** What goes wrong in a tab, as it goes wrong. */
export function watch(page: Page, vault: RunningVault): Pick<OpenedPage, 'problems' | 'elsewhere'> {
  const problems: string[] = []
  const elsewhere: string[] = []
  page.on('pageerror', (error) => problems.push(String(error)))
  page.on('console', (message) => {
    // A refusal of the vault is shown by the page itself; Chromium writes it down as well.
    if (message.type() === 'error' && !/^Failed to load resource/.test(message.text()))
      problems.push(message.text())
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(`${vault.url}/`)) elsewhere.push(request.url())
  })
  return { problems, elsewhere }
}
