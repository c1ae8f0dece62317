import type { Page } from 'playwright-core'

export const noWait = { prefer: 'wait=0' }

export const go = async (page: Page, view: string) => {
  await page.getByRole('link', { name: view }).click()
  await page.getByRole('heading', { name: view, level: 1 }).waitFor()
}
