import type { OptionsSchema } from '../plugin/options.ts'
import { countersSection, egressSection, storageSection } from './sections/data.ts'
import { assetsSection, feesSection, networksSection } from './sections/money.ts'
import { pluginsSection } from './sections/plugins.ts'
import {
  adminSection,
  gatewaySection,
  logSection,
  monitoringSection,
  operatorSection,
} from './sections/server.ts'

/**
 * Everything that a configuration file may say: the type {@link Config}, the check, the defaults, the editor's help and
 * the tables of docs/configuration.md all come from here. Rules between options are in `rules.ts`.
 */
export const configSchema = {
  type: 'object',
  additionalProperties: false,
  title: 'Tollgate configuration',
  description: 'Configuration of a Tollgate gateway.',
  required: ['publicUrl'],
  properties: {
    $schema: {
      type: 'string',
      description: 'Where editors find the schema of this file. The gateway ignores it.',
    },
    publicUrl: {
      type: 'string',
      format: 'url',
      pattern: '^https?://[^/?#@]+(/[^?#]*)?$',
      examples: ['https://pay.example.com', 'http://127.0.0.1:8080'],
      description:
        'Base URL that buyers see. It is signed into every offer, and never taken from a request, so it has to be the true one.',
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
      description: 'Field of a wrapped answer that carries the purchase id and the review token.',
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
        "File with the server's secret, made at the first start. It seals sellers' credentials: back it up with the database. Relative to this configuration file.",
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
