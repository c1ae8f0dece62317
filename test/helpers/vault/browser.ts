import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import type { Test } from 'tap'

/** Nothing but the pages under test: no sandbox (containers have none), no calls home, no first-run pages. */
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

/**
 * Starts a Chromium without a window, in a profile of its own that is gone with the test. It is the one of `CHROMIUM_PATH`,
 * or Debian's. Without one the test is skipped, visibly, and fails where `CI` is `true`.
 *
 * @param more further flags, such as `--host-resolver-rules=MAP evil.example 127.0.0.1`
 */
export async function startBrowser(t: Test, more: readonly string[] = []): Promise<Browser | undefined> {
  const executablePath = process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium'
  if (!existsSync(executablePath)) {
    const reason = `no Chromium at ${executablePath}; install one or set CHROMIUM_PATH`
    if (process.env['CI'] === 'true') t.fail(reason)
    else t.pass(reason, { skip: reason })
    return undefined
  }
  const browser = await chromium.launch({
    executablePath,
    headless: true,
    args: [...flags, ...more],
    timeout: 90_000,
  })
  t.teardown(() => browser.close())
  return browser
}
