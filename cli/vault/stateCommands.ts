import type { Command } from 'commander'
import type { UnauthenticatedRange } from '../../vault/ports/audit.ts'
import type { Output } from '../output/createOutput.ts'
import { asOwner, asOwnerOfRunning, type CommonFlags, neededPassword, withCommonFlags } from './flags.ts'
import type { OwnerClient } from './ownerClient.ts'

interface Status {
  readonly vault_id: string
  readonly locked: boolean
  readonly lock_reason: string | null
  readonly locks_at: string | null
  readonly idle_locks_at: string | null
  readonly warnings: readonly { readonly message: string; readonly action: string }[]
}
interface Verdict {
  readonly ok: boolean
  readonly entries: number
  readonly dropped?: number
  readonly unauthenticated: readonly UnauthenticatedRange[]
  readonly clockTurnedBack?: number
  readonly firstBad?: number
  readonly reason?: string
}
interface Event {
  readonly timestamp: string
  readonly agent: string
  readonly action: string
  readonly status: string
  readonly details: {
    readonly amount: string | null
    readonly scope: string | null
    readonly note: string | null
    readonly code: string | null
  }
  readonly currency: string
  readonly claimed?: string
  readonly found?: string
}

const printWarnings = ({ warnings }: Status, output: Output): void => {
  for (const { message, action } of warnings) output.warn(`${message} ${action}`)
}

/** `tollgate vault status`, `lock`, `unlock`, `activity`, `verify`. */
export function registerState(vault: Command): void {
  withCommonFlags(vault.command('status'))
    .description('Show whether the vault is locked.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const status = await client.call<Status>('GET', '/v1/vault/status')
        const text = status.locked
          ? status.lock_reason === 'signer'
            ? 'locked, because the process that held the keys exited unexpectedly (tollgate vault unlock starts a new process)'
            : 'locked'
          : `unlocked until ${status.locks_at}, or ${status.idle_locks_at} when idle`
        printWarnings(status, output)
        output.result(
          { ...status, running: client.isRemote },
          client.isRemote
            ? `The vault ${status.vault_id} is ${text}.`
            : `The vault ${status.vault_id} is not running. This password unlocks the vault. Start the vault with tollgate vault.`,
        )
      }),
    )

  withCommonFlags(vault.command('unlock'))
    .description('Unlock a running vault with its password.')
    .action((flags: CommonFlags) =>
      asOwnerOfRunning(flags, async (client, output) => {
        const password = await neededPassword(flags, output)
        const response = await client.call<{ expires_at: string }>('POST', '/v1/vault/unlock', { password })
        printWarnings(await client.call<Status>('GET', '/v1/vault/status'), output)
        output.result(
          response,
          `The vault is unlocked. Without use, the vault locks at ${response.expires_at}.`,
        )
      }),
    )

  withCommonFlags(vault.command('lock'))
    .description('Lock a running vault and remove every key from memory.')
    .action((flags: CommonFlags) =>
      asOwnerOfRunning(flags, async (client, output) => {
        output.result(await client.call<object>('POST', '/v1/vault/lock', {}), 'The vault is locked.')
      }),
    )

  const activity = withCommonFlags(vault.command('activity'))
  activity
    .description('Show the activity log: requests and their outcomes.')
    .option('--agent <name>', 'show only requests of this agent')
    .option('--action <name>', 'show only this action: SIGN, READ, WRITE, CALL …')
    .option('--status <name>', 'show only this status: PENDING, APPROVED, AUTO_APPROVED, DENIED …')
    .option('--limit <n>', 'number of entries to show, newest first, at most 500', '50')
    .action((flags: CommonFlags & Record<'agent' | 'action' | 'status' | 'limit', string | undefined>) =>
      asOwner(flags, async (client, output) => {
        const query = new URLSearchParams()
        for (const name of ['agent', 'action', 'status', 'limit'] as const)
          if (flags[name] !== undefined) query.set(name, flags[name])
        await listActivity(client, output, query)
      }),
    )

  const verify = (flags: CommonFlags): Promise<void> =>
    asOwner(flags, async (client, output) => {
      const verdict = await client.call<Verdict>('GET', '/v1/vault/activity/verify')
      output.result(verdict, sentenceOf(verdict))
      if (!verdict.ok) process.exitCode = 1
    })
  const what = 'Verify the activity log from its first entry to its last.'
  withCommonFlags(vault.command('verify')).description(what).action(verify)
  withCommonFlags(activity.command('verify')).description(what).action(verify)
}

function sentenceOf({
  ok,
  entries,
  dropped,
  firstBad,
  reason,
  unauthenticated,
  clockTurnedBack,
}: Verdict): string {
  const locked = countedIn(unauthenticated)
  return [
    ok ? `All ${entries} entries are unchanged.` : `Entry ${firstBad} does not verify: ${reason}.`,
    dropped !== undefined && `${dropped} older entries were dropped by the limits on the log's size and age.`,
    locked !== undefined &&
      `${locked} were written while the vault was locked, when entries cannot be authenticated.`,
    clockTurnedBack !== undefined && `The clock was turned back before entry ${clockTurnedBack}.`,
  ]
    .filter((sentence) => sentence !== false)
    .join(' ')
}

/** The number of entries and their ranges. Undefined if there are none. */
function countedIn(ranges: readonly UnauthenticatedRange[]): string | undefined {
  if (ranges.length === 0) return undefined
  const count = ranges.reduce((sum, range) => sum + range.count, 0)
  const places = ranges.map(({ from, to }) => (from === to ? from : `${from} to ${to}`)).join(', ')
  return `${count} of them (${places})`
}

/** Lists the log, newest first. */
export async function listActivity(
  client: OwnerClient,
  output: Output,
  query: URLSearchParams,
): Promise<void> {
  const { events } = await client.call<{ events: Event[] }>('GET', `/v1/vault/activity?${query}`)
  output.rows(
    events,
    [
      { title: 'Time', value: ({ timestamp }) => timestamp },
      { title: 'Agent', value: ({ agent }) => agent },
      { title: 'Action', value: ({ action }) => action },
      { title: 'Status', value: ({ status }) => status },
      { title: 'What', value: whatOf, isWhole: true },
      // The agent's claim has a column of its own, which contains no words of the vault.
      ...(events.some(({ claimed }) => claimed != null)
        ? [{ title: 'What the agent claimed', value: ({ claimed }: Event) => claimed ?? null, isWhole: true }]
        : []),
    ],
    ['agent', 'action', 'status'].some((filter) => query.has(filter))
      ? 'No entry matches.'
      : 'No entries yet.',
  )
}

/**
 * The subject of a log entry. If the request was refused for a false claim or was not decoded, this is what its bytes would do.
 */
function whatOf({ action, details, status, currency, found }: Event): string | null {
  const sum = `${details.amount} ${currency}`
  if (action === 'GIVE_BACK') return `${sum}: ${details.note}`
  const about = details.amount === null ? (details.scope ?? details.note) : sum
  if (found === undefined) return about
  const why = details.code ?? (status === 'DENIED' ? 'Refused' : 'Not fully decoded')
  return `${why}. Found: ${found}`
}

interface Link {
  readonly url: string
  readonly expires_at: string
}

/**
 * `tollgate vault open`. It prints the link instead of starting a browser, because every user of the machine can read a
 * program's arguments, and the link works only once, for the first program that uses it.
 */
export function registerOpen(vault: Command): void {
  withCommonFlags(vault.command('open'))
    .description('Print a link to the approvals page. The link works once, within two minutes.')
    .action((flags: CommonFlags) =>
      asOwnerOfRunning(flags, async (client, output) => {
        const link = await client.call<Link>('POST', '/v1/vault/owner/links', {})
        output.result(
          link,
          `Open this link in your browser. The link works once, until ${link.expires_at}:\n${link.url}`,
        )
      }),
    )
}
