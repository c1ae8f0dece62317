import type { ArrayOption, Infer, OptionsSchema } from '../plugin/options.ts'
import { countersSection, egressSection, storageSection } from './sections/data.ts'
import { assetsSection, feesSection, networksSection } from './sections/money.ts'
import {
  adminSection,
  gatewaySection,
  logSection,
  monitoringSection,
  operatorSection,
} from './sections/server.ts'

const pluginsSection = {
  type: 'array',
  default: [],
  description:
    'The plugins that process calls of links. Within a phase of a call, plugins run in the order of this list. Without this list, every built-in plugin runs with its default options.',
  examples: [
    [
      { use: 'rate-limit', with: { points: 60 } },
      { use: './my-plugin/index.ts', when: { links: ['alice/*'], paid: true } },
    ],
  ],
  items: {
    type: 'object',
    additionalProperties: false,
    required: ['use'],
    description: 'One plugin.',
    properties: {
      use: {
        type: 'string',
        minLength: 1,
        description:
          'Name of a built-in plugin or of an npm package, or path of a file such as `./my-plugin.ts`.',
      },
      with: {
        type: 'object',
        additionalProperties: true,
        default: {},
        description: "The plugin's own options. The plugin's README lists the options.",
      },
      when: {
        type: 'object',
        additionalProperties: false,
        description:
          'The links for which the plugin runs. Without this option, the plugin runs for every link.',
        properties: {
          links: {
            type: 'array',
            minItems: 1,
            items: {
              type: 'string',
              pattern: '^[^/]+/[^/]+$',
              description:
                'Seller and slug, in which `*` matches any characters: `alice/weather`, `alice/*`, `*/free-*`.',
            },
            description: 'The plugin runs only for links whose `seller/slug` matches one of these patterns.',
          },
          paid: {
            type: 'boolean',
            description:
              'With true, the plugin runs only for paid links. With false, the plugin runs only for free links. Without this option, the plugin runs for paid and free links.',
          },
        },
      },
    },
  },
} as const satisfies ArrayOption

/**
 * Everything that a configuration file may contain. The type {@link Config}, the check, the defaults, the editors' help and
 * docs/reference/configuration.md are derived from this schema. Rules about combinations of options are in `rules/`.
 */
export const configSchema = {
  type: 'object',
  additionalProperties: false,
  title: 'Tollgate configuration',
  description: 'Configuration of a Tollgate gateway.',
  examples: [{ publicUrl: 'https://pay.example.com', serviceName: 'Example Pay' }],
  required: ['publicUrl'],
  properties: {
    $schema: {
      type: 'string',
      description:
        'Address of the JSON Schema of this file, which text editors use for completion and checks. The gateway ignores this option.',
    },
    publicUrl: {
      type: 'string',
      format: 'url',
      pattern: '^https?://[^/?#@]+(/[^?#]*)?$',
      examples: ['https://pay.example.com', 'http://127.0.0.1:8080'],
      description:
        'Base URL of the gateway, as buyers see it. This URL is part of every offer. The gateway never derives the URL from a request, so the URL must be correct.',
    },
    serviceName: {
      type: 'string',
      minLength: 1,
      maxLength: 100,
      default: 'Tollgate',
      description: 'Name of this service, as buyers and sellers see it.',
    },
    metadataField: {
      type: 'string',
      pattern: '^[A-Za-z_][A-Za-z0-9_]{0,63}$',
      default: '_svc',
      description:
        'Name of the field that contains the purchase id and the review token in a wrapped response.',
    },
    gateway: gatewaySection,
    admin: adminSection,
    operator: operatorSection,
    monitoring: monitoringSection,
    storage: storageSection,
    secretFile: {
      type: 'string',
      format: 'path',
      minLength: 1,
      default: './data/secret',
      description:
        "File with the server's secret. The gateway creates this file at the first start. The secret encrypts sellers' credentials, so back up the file together with the database. A relative path starts at the folder of this configuration file.",
    },
    counters: countersSection,
    networks: networksSection,
    assets: assetsSection,
    fees: feesSection,
    egress: egressSection,
    plugins: pluginsSection,
    log: logSection,
  },
} as const satisfies OptionsSchema

/** A checked configuration, with every default, with absolute paths, and with every `${NAME}` replaced. */
export type Config = Infer<typeof configSchema>

export type NetworkConfig = NonNullable<Config['networks'][keyof Config['networks']]>
export type FacilitatorConfig = NetworkConfig['facilitator']
export type ChannelsConfig = NonNullable<NetworkConfig['channels']>
export type AssetConfig = Config['assets'][number]
/** One entry of `plugins`, with its checked options including defaults, and the links for which it runs. */
export type PluginConfig = Config['plugins'][number]

/** Caps on the cost of a settlement, by the gateway's own key or in a Solana facilitator's offers. */
type Caps = Omit<FacilitatorConfig, 'url' | 'headers' | 'privateKey' | 'privateKeys'>

/** The settler of a network's payments, which is this gateway with its own keys, or another server. */
export type FacilitatorChoice =
  | ({ readonly kind: 'embedded'; readonly privateKeys: readonly string[] } & Caps)
  | ({ readonly kind: 'remote'; readonly url: string; readonly headers: FacilitatorConfig['headers'] } & Caps)

/** Returns the settler of a checked configuration, which has exactly one of `privateKey`, `privateKeys` and `url`. */
export function facilitatorChoice(config: FacilitatorConfig): FacilitatorChoice {
  const { url, headers, privateKey, privateKeys, ...caps } = config
  if (url !== undefined) return { kind: 'remote', url: url.replace(/\/+$/, ''), headers, ...caps }
  return { kind: 'embedded', privateKeys: privateKeys ?? [privateKey!], ...caps }
}
