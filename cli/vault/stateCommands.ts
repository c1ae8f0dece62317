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

const tellWarnings = ({ warnings }: Status, output: Output): void => {
  for (const { message, action } of warnings) output.warn(`${message} ${action}`)
}

/** `tollgate vault status`, `lock`, `unlock`, `activity`, `verify`. */
export function registerState(vault: Command): void {
  withCommonFlags(vault.command('status'))
    .description('Say whether the vault is open.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const status = await client.call<Status>('GET', '/v1/vault/status')
        const text = status.locked
          ? status.lock_reason === 'signer'
            ? 'locked: the signing process ended by itself, and the keys with it; tollgate vault unlock starts another'
            : 'locked'
          : `open until ${status.locks_at}, or ${status.idle_locks_at} when idle`
        tellWarnings(status, output)
        output.result(
          { ...status, running: client.isRemote },
          client.isRemote
            ? `The vault ${status.vault_id} is ${text}.`
            : `The vault ${status.vault_id} is not running; this password opens it. Start it with tollgate vault.`,
        )
      }),
    )

  withCommonFlags(vault.command('unlock'))
    .description('Open a running vault with its password.')
    .action((flags: CommonFlags) =>
      asOwnerOfRunning(flags, async (client, output) => {
        const password = await neededPassword(flags, output)
        const answer = await client.call<{ expires_at: string }>('POST', '/v1/vault/unlock', { password })
        tellWarnings(await client.call<Status>('GET', '/v1/vault/status'), output)
        output.result(answer, `The vault is open; without use it locks at ${answer.expires_at}.`)
      }),
    )

  withCommonFlags(vault.command('lock'))
    .description('Lock a running vault: every key is gone from memory.')
    .action((flags: CommonFlags) =>
      asOwnerOfRunning(flags, async (client, output) => {
        output.result(await client.call<object>('POST', '/v1/vault/lock', {}), 'The vault is locked.')
      }),
    )

  const activity = withCommonFlags(vault.command('activity'))
  activity
    .description('Show what was asked and what became of it.')
    .option('--agent <name>', 'only what this one asked')
    .option('--action <name>', 'only SIGN, READ, WRITE, CALL …')
    .option('--status <name>', 'only PENDING, APPROVED, AUTO_APPROVED, DENIED …')
    .option('--limit <n>', 'so many of the newest, at most 500', '50')
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
  const what = 'Check the log of activity from its first entry to its last.'
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
    ok
      ? `All ${entries} entries are as they were written.`
      : `Entry ${firstBad} is not as it was written: ${reason}.`,
    dropped !== undefined &&
      `The ${dropped} before them were dropped because the log was full or they were old.`,
    locked !== undefined &&
      `${locked} were written while the vault was locked, when nobody can vouch for what is added.`,
    clockTurnedBack !== undefined && `The clock was turned back before entry ${clockTurnedBack}.`,
  ]
    .filter((sentence) => sentence !== false)
    .join(' ')
}

/** How many entries, and which; undefined for none. */
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
      // The agent's words have a column of their own, in which nothing of the vault stands.
      ...(events.some(({ claimed }) => claimed != null)
        ? [{ title: 'What the agent claimed', value: ({ claimed }: Event) => claimed ?? null, isWhole: true }]
        : []),
    ],
    ['agent', 'action', 'status'].some((filter) => query.has(filter))
      ? 'Nothing like that happened.'
      : 'Nothing happened yet.',
  )
}

/** What an entry is about; of a lie that was refused, and of what was not understood, what it would do. */
function whatOf({ details, status, currency, found }: Event): string | null {
  const about = details.amount === null ? (details.scope ?? details.note) : `${details.amount} ${currency}`
  if (found === undefined) return about
  const why = details.code ?? (status === 'DENIED' ? 'Refused' : 'Not understood')
  return `${why}. Found: ${found}`
}

interface Link {
  readonly url: string
  readonly expires_at: string
}

/**
 * `tollgate vault open`. It prints the link and starts no browser: what a program is started with can be read by every
 * user of the machine, and the link opens the page for whoever is first.
 */
export function registerOpen(vault: Command): void {
  withCommonFlags(vault.command('open'))
    .description('Print a link to the approvals page; it works once, for two minutes.')
    .action((flags: CommonFlags) =>
      asOwnerOfRunning(flags, async (client, output) => {
        const link = await client.call<Link>('POST', '/v1/vault/owner/links', {})
        output.result(link, `Open this in your browser, once, until ${link.expires_at}:\n${link.url}`)
      }),
    )
}
