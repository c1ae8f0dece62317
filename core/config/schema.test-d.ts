// Checked by tsc, never run: what the loader promises about the shape of a configuration.
import type { NetworkId } from '../domain/network.ts'
import type { AssetConfig, Config, FacilitatorConfig, PluginConfig } from './schema.ts'

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <T extends true>(): T | undefined => undefined

same<Same<Config['publicUrl'], string>>()
same<Same<Config['gateway']['port'], number>>()
same<Same<Config['gateway']['trustedProxyCidrs'], readonly string[]>>()
same<Same<Config['counters']['use'], 'memory' | 'redis'>>()
same<Same<Config['counters']['url'], string | undefined>>()
same<Same<keyof Config['networks'], NetworkId>>()
same<Same<AssetConfig['network'], NetworkId>>()
same<Same<AssetConfig['program'], 'token' | 'token-2022' | undefined>>()
same<Same<FacilitatorConfig['maxGas'], number>>()
same<Same<FacilitatorConfig['privateKey'], string | undefined>>()
same<Same<PluginConfig['with'], { readonly [key: string]: unknown }>>()
same<Same<NonNullable<PluginConfig['when']>['paid'], boolean | undefined>>()
