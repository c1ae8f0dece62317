import { canonicalAddress } from '../domain/address.ts'
import { chainFamilyOf } from '../domain/network.ts'
import { checkDocument, type LoadedPlugin } from './check/checkDocument.ts'
import type { PluginDeclaration, PluginSource } from './check/checkPlugins.ts'
import type { Finding } from './check/explain.ts'
import type { ConfigProblem } from './check/problem.ts'
import type { Environment } from './read/interpolate.ts'
import { isInside } from './read/pointer.ts'
import { readConfigText } from './read/readConfigText.ts'
import { assetRules } from './rules/assets.ts'
import { networkRules } from './rules/networks.ts'
import { mistake, type Rule, type RuleContext } from './rules/rule.ts'
import { serverRules } from './rules/server.ts'
import { type Config, configSchema } from './schema.ts'

export type { LoadedPlugin } from './check/checkDocument.ts'

export interface LoadOptions<P extends PluginDeclaration> {
  /** The variables for `${NAME}`, usually `process.env`. */
  readonly env: Environment
  readonly plugins: PluginSource<P>
}

export interface LoadedConfig<P> {
  /** The text of the file. */
  readonly text: string
  readonly config: Config
  readonly plugins: readonly LoadedPlugin<P>[]
  /** Values that are allowed, but probably not what the operator meant. They are printed at startup. */
  readonly warnings: readonly ConfigProblem[]
}

/**
 * Reads a configuration file of the gateway, which is YAML, or JSON if its name ends in `.json`. It replaces `${NAME}`, checks the
 * file and its plugins' options, fills in the defaults, and makes relative paths absolute from the folder of the file.
 *
 * @throws {ConfigError} with every problem at once, such as an unreadable file, an unset variable or an unknown option
 *
 * @example const { config, plugins, warnings } = await loadConfig('tollgate.yaml', { env: process.env, plugins: loader })
 */
export async function loadConfig<P extends PluginDeclaration>(
  file: string,
  options: LoadOptions<P>,
): Promise<LoadedConfig<P>> {
  return parseConfig(await readConfigText(file), { ...options, file })
}

/**
 * Like {@link loadConfig}, for a text in memory. `file` is the text's name in messages, and relative paths start from the folder of
 * that name.
 */
export async function parseConfig<P extends PluginDeclaration>(
  text: string,
  options: LoadOptions<P> & { readonly file: string },
): Promise<LoadedConfig<P>> {
  const { values, plugins, warnings } = await checkDocument(text, {
    ...options,
    schema: configSchema,
    rules: (config, facts, found) => applyRules({ config, ...facts }, found),
  })
  const config: Config = { ...values, publicUrl: values.publicUrl.replace(/\/+$/, '') }
  return { text, config, plugins, warnings }
}

/** Rules about fees. Sellers pay to these addresses, so an address must have no typing error. */
const feeRules: readonly Rule[] = [
  {
    reads: ['fees'],
    *check({ config: { fees } }) {
      for (const chain of ['base', 'solana'] as const) {
        const address = fees.payTo[chain]
        const family = chainFamilyOf(chain)
        if (address === undefined || canonicalAddress(family, address) !== undefined) continue
        const expected =
          family === 'solana'
            ? '32 bytes in base58'
            : '0x and 40 hexadecimal digits, in quotes; in mixed case with the right checksum'
        yield mistake(
          `/fees/payTo/${chain}`,
          `fees.payTo.${chain} is not an address of this chain: expected ${expected}.`,
          'Copy it again from the wallet: fees that sellers pay to a wrong address are lost.',
        )
      }
    },
  },
]

const rules: readonly Rule[] = [...serverRules, ...networkRules, ...assetRules, ...feeRules]

/** Applies the rules that the schema cannot express. */
function applyRules(context: RuleContext, found: readonly Finding[]): Finding[] {
  const isSound = (section: keyof Config) =>
    context.config[section] !== undefined &&
    !found.some((finding) => finding.severity === 'error' && isInside(finding.pointer, `/${section}`))
  return rules.filter((rule) => rule.reads.every(isSound)).flatMap((rule) => [...rule.check(context)])
}
