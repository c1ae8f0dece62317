import type { AnyVaultPlugin } from '../../core/plugin/vault.ts'
import telegram from './telegram/index.ts'

/** The plugins that a vault's configuration can name without installation. A plugin runs only if it is named. */
export const builtInVaultPlugins: readonly AnyVaultPlugin[] = [telegram]
