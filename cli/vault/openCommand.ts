import type { Command } from 'commander'
import { asOwnerOfRunning, type CommonFlags, withCommonFlags } from './flags.ts'

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
