/**
 * Values that this tab keeps across reloads until it is closed. If storage is disabled, reading the browser's property throws,
 * so nothing is stored.
 */
export const readFromTab = (key: string): string | null =>
  inStorage((storage) => storage.getItem(key)) ?? null
export const saveInTab = (key: string, value: string): void =>
  void inStorage((storage) => storage.setItem(key, value))
export const removeFromTab = (key: string): void => void inStorage((storage) => storage.removeItem(key))

interface TabStorage {
  getItem(key: string): string | null
  setItem(key: string, value: string): void
  removeItem(key: string): void
}

function inStorage<T>(use: (storage: TabStorage) => T): T | undefined {
  try {
    return use((globalThis as unknown as { readonly sessionStorage: TabStorage }).sessionStorage)
  } catch {
    return undefined
  }
}
