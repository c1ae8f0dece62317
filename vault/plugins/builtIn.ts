import type { AnyVaultPlugin } from '../../core/plugin/vault.ts'
import telegram from './telegram/index.ts'

/** The plugins that a vault's configuration may name without installing anything; none runs unless it is named. */
export const builtInVaultPlugins: readonly AnyVaultPlugin[] = [telegram]
