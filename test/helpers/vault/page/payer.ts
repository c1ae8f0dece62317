import type { Page } from 'playwright-core'
import type { ApprovalView, PartView } from '../../../../vault/approvals/approval.ts'
import { smallPayments } from '../transfers.ts'
import { type PageVault, startPageVault } from './openPage.ts'

export const noWait = { prefer: 'wait=0' }

/** Every approval on the page. */
export const cards = (page: Page) => page.getByRole('article')

export const result = (page: Page, text: string) => cards(page).getByText(text)

/** A vault whose agent may spend 1 USDC without asking. */
export async function withPayer(t: Parameters<typeof startPageVault>[0]) {
  const vault = await startPageVault(t)
  const payer = await vault.agent('payer', ['wallet.base', 'ask:identity.email', 'identity.name'])
  await vault.api.policies.set('payer', smallPayments, vault.owner)
  return { vault, payer }
}

export const partOf = (title: string, text: string): PartView => ({
  title,
  by: 'agent',
  raw: false,
  text,
  format: 'text',
  bytes: Buffer.byteLength(text),
  sha256: 'ab'.repeat(32),
  whole: true,
  secret: false,
})

/** Shows an approval that no agent requested: the vault's own come in only a few kinds, and are small. */
export async function show(vault: PageVault, page: Page, fields: object): Promise<void> {
  const approval = viewOf(fields)
  vault.tell({ type: 'approval', agentId: 'a', approval })
  const { id, decision_hash: hash, status } = approval
  await page
    .locator(`[data-id="${id}"][data-status="${status}"]`)
    .filter({ has: page.getByTitle(hash) })
    .waitFor()
}

export const viewOf = (fields: object): ApprovalView => ({
  id: 'shown',
  status: 'pending',
  agent: 'a',
  operation: 'vault_sign_message',
  scope: 'wallet.base',
  chain: 'base',
  amount: null,
  currency: null,
  recipient: null,
  from: null,
  nonce: null,
  asked_before: null,
  first_time: null,
  effects: ['It does something.'],
  warnings: [],
  reasons: [],
  opaque: false,
  purpose: null,
  decision_hash: 'ab'.repeat(32),
  created_at: new Date().toISOString(),
  expires_at: new Date(Date.now() + 300_000).toISOString(),
  decided_at: null,
  decided_by: null,
  kind: 'message',
  parts: [],
  second_word: null,
  approve_command: null,
  ...fields,
})
