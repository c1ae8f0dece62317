import type { Infer } from '../plugin/options.ts'
import type { configSchema } from './schema.ts'

/** A checked configuration: every default filled in, every path absolute, every `${NAME}` replaced. */
export type Config = Infer<typeof configSchema>

export type NetworkConfig = NonNullable<Config['networks'][keyof Config['networks']]>
export type FacilitatorConfig = NetworkConfig['facilitator']
export type AssetConfig = Config['assets'][number]
/** One line of the plan: which plugin, its options (checked, with defaults), and for which links. */
export type PluginConfig = Config['plugins'][number]
