import type { Command } from 'commander'
import type { PairingOffer, PairingSummary } from '../../vault/ports/pairings.ts'
import { UsageError } from '../output/exitCodes.ts'
import { asOwner, type CommonFlags, withCommonFlags } from './flags.ts'

interface AddFlags extends CommonFlags {
  readonly agent: string
}

/** `tollgate vault pair …`: agents on other machines. */
export function registerPairings(vault: Command): void {
  const pair = vault.command('pair').description('Agents on other machines (needs a vault with --relay).')

  withCommonFlags(pair.command('new'))
    .description('Print the command for the remote machine, with its one-time token.')
    .argument('<service-id>', 'name of the remote service')
    .requiredOption('--agent <name>', 'the agent that it will be')
    .action((serviceId: string, flags: AddFlags) =>
      asOwner(flags, async (client, output) => {
        const body = { service_id: serviceId, agent: flags.agent }
        const offer = await client.call<PairingOffer>('POST', '/v1/vault/pairings', body)
        output.result(offer, `${offer.command}\nValid until ${offer.expires_at}, once.`)
      }),
    )

  withCommonFlags(pair.command('list'))
    .description('Show pairings, and the four words of those that wait for you.')
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const { pairings } = await client.call<{ pairings: PairingSummary[] }>('GET', '/v1/vault/pairings')
        output.rows(
          pairings,
          [
            { title: 'Id', value: ({ id }) => id, isWhole: true },
            { title: 'Service', value: ({ service_id }) => service_id },
            { title: 'State', value: ({ state }) => state },
            { title: 'Words', value: ({ phrase }) => phrase, isWhole: true },
          ],
          'No pairings yet.',
        )
      }),
    )

  withCommonFlags(pair.command('resume'))
    .description('Let a pairing go on that a restore suspended.')
    .argument('[id]')
    .option('--all', 'every pairing that is suspended')
    .action((id: string | undefined, flags: CommonFlags & { readonly all?: true }) =>
      asOwner(flags, async (client, output) => {
        if ((id === undefined) === (flags.all === undefined))
          throw new UsageError('Expected the id of a pairing, or --all.')
        const ids =
          id === undefined
            ? (await client.call<{ pairings: PairingSummary[] }>('GET', '/v1/vault/pairings')).pairings
                .filter(({ state }) => state === 'suspended')
                .map((pairing) => pairing.id)
            : [id]
        for (const one of ids)
          await client.call<object>('PATCH', `/v1/vault/pairings/${encodeURIComponent(one)}`, {
            suspended: false,
          })
        const text = ids.map((one) => `${one} goes on.`).join('\n')
        output.result({ ids }, text === '' ? 'No pairing is suspended.' : text)
      }),
    )

  withCommonFlags(pair.command('rotate-key'))
    .description(
      'Give the vault a new key for remote agents; proxies that are paired follow it by themselves.',
    )
    .action((flags: CommonFlags) =>
      asOwner(flags, async (client, output) => {
        const { generation } = await client.call<{ generation: number }>(
          'POST',
          '/v1/vault/pairings/rotate-key',
          {},
        )
        output.result({ generation }, `Key ${generation} is in use.`)
      }),
    )

  for (const [verb, description] of [
    ['confirm', 'Say that both sides show the same four words.'],
    ['refuse', 'Say that they differ.'],
    ['revoke', 'End a pairing.'],
  ] as const) {
    withCommonFlags(pair.command(verb))
      .description(description)
      .argument('<id>')
      .action((id: string, flags: CommonFlags) =>
        asOwner(flags, async (client, output) => {
          const path = `/v1/vault/pairings/${encodeURIComponent(id)}/${verb}`
          output.result(await client.call<object>('POST', path, {}), `${id}: done.`)
        }),
      )
  }
}
