import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: { globalSetup: './gateway.js', sequence: { concurrent: true } }
})
