# The image for clusters: one static binary and nothing else. Tests build the same without a container engine: `make image`.
FROM rust:1.95.0-bookworm AS build
# What the image has, without the components for developing that rust-toolchain.toml adds.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
RUN RUSTFLAGS='-C target-feature=+crt-static' \
    cargo build --locked --release --target x86_64-unknown-linux-gnu -p quorate

FROM scratch
COPY --from=build /src/target/x86_64-unknown-linux-gnu/release/quorate /quorate
USER 65532:65532
ENTRYPOINT ["/quorate"]
